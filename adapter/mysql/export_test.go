package mysql

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// Empty removes everything but the schema.
func (s *Store) Empty(ctx context.Context) error {
	const deleteAll = `DELETE FROM job; DELETE FROM definition; DELETE FROM job_label; DELETE FROM run; DELETE FROM history; DELETE FROM dead; DELETE FROM dead_group;
DELETE FROM result; DELETE FROM checkpoint; DELETE FROM run_payload; DELETE FROM attempt; DELETE FROM guard; DELETE FROM line`
	return s.use(ctx, func(l *conn) error { return l.exec([]byte(deleteAll)) })
}

// Bound sets after how many rows a search returns its page, and how many records or pieces are too many to be
// moved.
func (s *Store) Bound(maxScan, bulk int) { s.maxScan, s.bulk, s.bulkPieces = maxScan, bulk, bulk }

// Exec runs statements.
func (s *Store) Exec(ctx context.Context, statements string) error {
	return s.use(ctx, func(l *conn) error { return l.exec([]byte(statements)) })
}

// During runs a function while a transaction is open that has run a query, on one of the connections for
// reading.
func (s *Store) During(ctx context.Context, query string, f func()) error {
	return s.view(ctx, func(l *conn) error {
		_, err := l.has(query)
		f()
		return err
	})
}

// View runs a function and then a query, in one view.
func (s *Store) View(ctx context.Context, query string, before func()) error {
	return s.view(ctx, func(l *conn) error {
		before()
		_, err := l.has(query)
		return err
	})
}

// Apply applies migrations with a limit on how long a call can take.
func (s *Store) Apply(
	ctx context.Context, address string, timeout time.Duration, all []sqlcommon.Migration,
) error {
	settings, err := parse(address, timeout)
	if err != nil {
		return err
	}
	settings.ReadTimeout, s.timeout = timeout, timeout
	return s.apply(ctx, settings, all)
}

// Migrating runs a function while no node can migrate.
func (s *Store) Migrating(ctx context.Context, f func() error) error {
	return s.alone(ctx, "migration", func(*conn) error { return f() })
}

// Query returns the rows of an answer as text.
func (s *Store) Query(ctx context.Context, query string) (answer [][]string, err error) {
	err = s.use(ctx, func(l *conn) error {
		return l.query(func(r row) error {
			var line []string
			for _, v := range r.values {
				if b, ok := v.([]byte); ok {
					v = string(b)
				}
				line = append(line, fmt.Sprint(v))
			}
			answer = append(answer, line)
			return nil
		}, query)
	})
	return answer, err
}

// Script returns the statements of a commit that finds all rows as the changes expect them.
func (s *Store) Script(changes ...carillon.Change) string {
	p := batch{lined: s.lined(changes)}
	if err := p.write(changes, nil); err != nil {
		return err.Error()
	}
	return string(p.statements.buf)
}

// Planned is a query as it is sent, and the indexes that it must use.
type Planned struct {
	Query string
	Keys  []string
	Sorts bool
}

// Queries returns all statements that read more than rows named by key, and those that write by key.
func Queries() map[string]Planned {
	id, ids := carillon.RunID{Job: 5, Due: 7}, []carillon.RunID{{Job: 5, Due: 7}, {Job: 6, Due: 8}}
	run := &carillon.Run{ID: id, Rev: 3}
	fill := func(query string, args ...any) string { return string(appendSQL(nil, query, args...)) }
	pair := func(b []byte, id carillon.RunID) []byte { return appendSQL(b, `(?,?)`, id.Job, id.Due) }
	three := string(comparedRun(nil, run)) + `,(1,2,3))`
	wanted, wantedJob := raw(`namespace = 'a'`), raw(`j.namespace = 'a'`)
	still := raw(`h.ended > 5`)
	return map[string]Planned{
		"wakesOfAll": {
			fill(wakesOfAll, 1, 2, 3, 1, 2, 1, 9, raw(`AND shard IN (1,2)`), 10), []string{"run_wake"}, false,
		},
		"wakesOfLane": {
			fill(wakesOfLane, 1, 2, 3, 1, 2, 1, 9, raw(``), "n", "q", "t", 5, false, "s", 10), []string{"run_lane"}, false,
		},
		"lineAfter": {
			fill(lineAfter, "n", "h", 1, 2, 1, 9, 9, 99, 10), []string{"PRIMARY", "PRIMARY"}, false,
		},
		"holdsAfter":    {fill(holdsAfter, "n", "h", "n", 10), []string{"PRIMARY"}, false},
		"deleteLines":   {deleteLines + `(1,2),(2,3))`, []string{"line_run"}, false},
		"insertLines":   {insertLines + `(1,2),(2,3))`, []string{"PRIMARY"}, false},
		"guardsByKey":   {fill(guardsByKey, raw(`('a','b'),('a','c')`)), []string{"PRIMARY"}, false},
		"guardsUntil":   {fill(guardsUntil, "a", "b", "c"), []string{"PRIMARY"}, false},
		"guardsFrom":    {fill(guardsFrom, "a", ""), []string{"PRIMARY"}, false},
		"jobsLatest":    {fill(jobsLatest, raw(`1,2,3`)), []string{"PRIMARY"}, false},
		"jobsOlder":     {fill(jobsOlder, raw(`(1,2),(2,3)`)), []string{"PRIMARY", "PRIMARY"}, false},
		"runsByKey":     {fill(runsByKey, list(ids, dueJob)), []string{"PRIMARY"}, false},
		"historyByKey":  {fill(historyByKey, list(ids, pair)), []string{"history_job"}, false},
		"deadByKey":     {fill(deadByKey, list(ids, pair)), []string{"PRIMARY"}, false},
		"resultsByKey":  {fill(resultsByKey, list(ids, dueJob)), []string{"PRIMARY"}, false},
		"payloadsByKey": {fill(payloadsByKey, list(ids, dueJob)), []string{"PRIMARY"}, false},
		"jobsBefore": {
			fill(jobsBefore, wantedJob, wantedJob, wantedJob, 9, 1, 10),
			[]string{"PRIMARY", "run_job"},
			false,
		},
		"jobsLabeled": {
			fill(jobsLabeled, wantedJob, wantedJob, wantedJob, 9, 1, "a", "b", "c", 10),
			[]string{"PRIMARY", "PRIMARY", "run_job"},
			false,
		},
		"unfinishedOf":  {fill(unfinishedOf, raw(`1,2,3`)), []string{"run_job"}, false},
		"lastBegunOf":   {fill(lastBegunOf, 5), []string{"history_job"}, false},
		"allUnfinished": {fill(allUnfinished, wanted, 1, 2, 1, 9, 10), []string{"PRIMARY"}, false},
		"allEnded":      {fill(allEnded, wanted, 9, 10), []string{"PRIMARY"}, false},
		"allBad":        {fill(allBad, wanted, 9, 5, 10), []string{"history_state"}, false},
		"allDead":       {fill(allDead, wanted, 9, 10), []string{"dead_place"}, false},
		"jobUnfinished": {fill(jobUnfinished, wanted, 5, 9, 10), []string{"run_job"}, false},
		"jobEnded":      {fill(jobEnded, wanted, 5, 7, 9, 7, 10), []string{"history_job"}, false},
		"jobDead":       {fill(jobDead, wanted, 9, 5, 1, 99, 10), []string{"PRIMARY"}, true},
		"deadPrinted":   {fill(deadPrinted, wanted, 9, 5, "a", 10), []string{"dead_fingerprint"}, false},
		"deadTyped":     {fill(deadTyped, wanted, 9, "t", "a", 10), []string{"dead_type"}, false},
		"groupSample":   {fill(groupSample, 5, "a"), []string{"dead_fingerprint"}, false},
		"groupTypes":    {fill(groupTypes, "a", raw(`1,2`)), []string{"PRIMARY"}, false},
		"deadGroups":    {fill(deadGroups, "a", raw(`1`), 10), []string{"PRIMARY"}, true},
		"missingPrints": {fill(missingPrints, 10), []string{"dead_fingerprint"}, false},
		"lockLetters":   {lockLetters + withKeys + `(1,2),(2,3))`, []string{"PRIMARY"}, false},
		"uncountDead":   {uncountDead + withKeys + `(1,2),(2,3)` + byGroup + addLetters, []string{"PRIMARY"}, true},
		"historyByRule": {fill(historyByRule, 9, 10), []string{"history_expires"}, false},
		"historyByOwn":  {fill(historyByOwn, 9, 10), []string{"history_expires"}, false},
		"deadByRule":    {fill(deadByRule, 9, 10), []string{"dead_expires"}, false},
		"deadByOwn":     {fill(deadByOwn, 9, 10), []string{"dead_expires"}, false},
		"expiredGuards": {fill(expiredGuards, 9, 10), []string{"guard_expires"}, false},
		"lockJobs":      {fill(lockJobs, raw(`1,2,3`)), []string{"PRIMARY"}, false},
		"lockRuns":      {fill(lockRuns, list(ids, dueJob)), []string{"PRIMARY"}, false},
		"lockGuards":    {fill(lockGuards, raw(`('a','b'),('a','c')`)), []string{"PRIMARY"}, false},
		"compareGuards": {
			strings.TrimSuffix(strings.TrimPrefix(
				fill(
					compareGuards, raw(`('a','b',1),('a','c',1)`), 2,
				), "SET @rows = 9223372036854775807 + (("),
				") <> 2)"),
			[]string{"PRIMARY"},
			false,
		},
		"lockDead":     {fill(lockDead, list(ids, pair)), []string{"PRIMARY"}, false},
		"updateAlike":  {(&batch{}).alike([]*carillon.Run{run})[0].update + three, []string{"PRIMARY"}, false},
		"deleteRuns":   {deleteRuns + unheld + withRevs + three, []string{"PRIMARY"}, false},
		"deleteDead":   {deleteDead + `(1,2),(2,3))`, []string{"PRIMARY"}, false},
		"deleteGuards": {deleteGuards + `('a','b',1),('a','c',1))`, []string{"PRIMARY"}, false},
		"updateJob":    {fill(updateJob, 1, 2, 3), []string{"PRIMARY"}, false},
		"unlabelJob":   {fill(unlabelJob, 5), []string{"job_label_job"}, false},
		"deleteHistory": {
			deleteHistory + `(1,1800000000000),(2,1800000000000))`, []string{"PRIMARY"}, false,
		},
		"deleteLetters": {deleteLetters + `(1,2,3),(2,3,4))`, []string{"PRIMARY"}, false},
		"deletePayloads": {
			fill(deletePayloads, list(ids, dueJob), still),
			[]string{"PRIMARY", "history_job", "PRIMARY", "PRIMARY"},
			false,
		},
		"deleteResults": {
			fill(deleteResults, list(ids, dueJob), still),
			[]string{"PRIMARY", "history_job", "PRIMARY", "PRIMARY"},
			false,
		},
		"lockOneOffs": {fill(lockOneOffs, raw(`1,2,3`)), []string{"PRIMARY"}, false},
		"idleOneOffs": {
			fill(idleOneOffs, raw(`1,2,3`), still),
			[]string{"PRIMARY", "history_job", "PRIMARY", "run_job"},
			false,
		},
		"deleteJobs":     {fill(deleteJobs, raw(`1,2,3`)), []string{"PRIMARY"}, false},
		"deleteLabels":   {fill(deleteLabels, raw(`1,2,3`)), []string{"job_label_job"}, false},
		"dropGuards":     {fill(dropGuards, raw(`('a','b'),('a','c')`)), []string{"PRIMARY"}, false},
		"keptOfDay":      {fill(keptOfDay, raw(`later`), 5), []string{"history_expires"}, false},
		"afterOfDay":     {fill(afterOfDay, raw(`later`), 5, 10), []string{"PRIMARY"}, false},
		"deleteOldNames": {fill(deleteDefinitions, raw(`1,2,3`)), []string{"PRIMARY"}, false},
	}
}
