package mysql

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// forgetter remembers how far Forget has gone through a day that it will drop.
type forgetter struct {
	mu     sync.Mutex // guards what follows
	day    string
	passed int64
	ahead  carillon.Time // days have been made up to here

	counted time.Time // when all dead letters were counted
}

// Forget implements carillon.Store. One node at a time forgets; another node finds nothing to do meanwhile. A
// large day of history goes as a whole, later than its first records could go.
func (s *Store) Forget(
	ctx context.Context, rule carillon.Retention, now carillon.Time, limit int,
) (forgotten int, err error) {
	if limit <= 0 {
		return 0, ctx.Err()
	}
	if err := s.addDays(ctx, now); err != nil {
		return 0, tried("forget", err)
	}
	err = s.alone(ctx, "forgetting", func(l *conn) error {
		until := carillon.Time(0)
		if rule.Runs != 0 {
			until = now.Add(-rule.Runs.Std())
		}
		if err := s.tendGroups(l); err != nil {
			return err
		}
		if rule.Runs != 0 && !s.history.areFixed() {
			var err error
			if forgotten, until, err = s.forgetDays(l, until, now, limit); forgotten > 0 || err != nil {
				return err
			}
		}
		found, err := l.overdue(rule, until, now, limit)
		if err == nil && len(found) > 0 {
			forgotten = len(found)
			err = l.insist(func() error { return l.remove(found) })
		}
		if err != nil || len(found) == limit {
			return err
		}
		guards, err := l.expired(now.Add(-carillon.GuardGrace), limit-len(found))
		if err != nil || len(guards) == 0 {
			return err
		}
		forgotten += len(guards)
		return l.insist(func() error { return l.removeGuards(guards) })
	})
	if err != nil {
		return 0, tried("forget", err)
	}
	return forgotten, nil
}

// Records that can go, by the server's rule or by their own expiry. Both use history_expires and
// dead_expires.
const (
	historyByRule = `SELECT place, job, due, ended FROM history FORCE INDEX (history_expires)
WHERE expires IS NULL AND ended <= ? ORDER BY ended, place LIMIT ?`
	historyByOwn = `SELECT place, job, due, ended FROM history FORCE INDEX (history_expires)
WHERE expires <= ? ORDER BY expires, ended, place LIMIT ?`
	deadByRule = `SELECT place, job, due, ended FROM dead FORCE INDEX (dead_expires)
WHERE expires IS NULL AND ended <= ? ORDER BY ended, place LIMIT ?`
	deadByOwn = `SELECT place, job, due, ended FROM dead FORCE INDEX (dead_expires)
WHERE expires <= ? ORDER BY expires, ended, place LIMIT ?`
)

// overdue returns up to limit records that need not be kept. until is the server's rule for history; with 0
// every record without an expiry is kept.
func (l *conn) overdue(
	rule carillon.Retention, until, now carillon.Time, limit int,
) (found []sqlcommon.Past, err error) {
	if rule.Runs != 0 {
		if found, err = l.past(historyByRule, until, limit, false); err != nil {
			return nil, err
		}
	}
	return sqlcommon.Overdue(found, rule, now, limit,
		func(from sqlcommon.PastSource, until carillon.Time, limit int) ([]sqlcommon.Past, error) {
			return l.past(overdueIn[from], until, limit, from.Table == sqlcommon.TableDead)
		})
}

var overdueIn = map[sqlcommon.PastSource]string{
	{Table: sqlcommon.TableHistory, Own: true}: historyByOwn,
	{Table: sqlcommon.TableDead}:               deadByRule,
	{Table: sqlcommon.TableDead, Own: true}:    deadByOwn,
}

func (l *conn) past(
	query string, until carillon.Time, limit int, dead bool,
) (found []sqlcommon.Past, err error) {
	err = l.query(func(r row) error {
		found = append(found, pastOf(r, dead))
		return nil
	}, query, until, limit)
	return found, err
}

// By guard_expires, which ends with the primary key.
const expiredGuards = "SELECT namespace, `key`, rev FROM guard FORCE INDEX (guard_expires)" +
	" WHERE expires <= ? ORDER BY expires, namespace, `key` LIMIT ?"

func (l *conn) expired(at carillon.Time, limit int) (found []*carillon.Guard, err error) {
	err = l.query(func(r row) error {
		found = append(found, &carillon.Guard{Namespace: r.name(0), Key: r.text(1), Rev: int32(r.int(2))})
		return nil
	}, expiredGuards, at, limit)
	return found, err
}

// removeGuards removes guards, unless they were written since they were found.
func (l *conn) removeGuards(guards []*carillon.Guard) error {
	var p batch
	p.statements.add(beginWrite)
	p.gone = guards
	p.deleteGuards(0)
	if err := l.send(&p.statements); err != nil {
		return l.end(err)
	}
	return l.exec([]byte(`COMMIT`))
}

func pastOf(r row, dead bool) sqlcommon.Past {
	return sqlcommon.Past{
		Place: r.int(0),
		ID:    carillon.RunID{Job: carillon.JobID(r.int(1)), Due: carillon.Time(r.int(2))},
		Ended: carillon.Time(r.int(3)), Dead: dead,
	}
}

// By primary key. For a dead letter the statement compares place too: the run may have another letter by now.
const (
	deleteHistory = `DELETE h FROM history h FORCE INDEX (PRIMARY) WHERE (place, ended) IN (`
	deleteLetters = `DELETE dead FROM dead FORCE INDEX (PRIMARY) WHERE (job, due, place) IN (`
)

// remove deletes records and the rows that were kept only for them, in a transaction.
func (l *conn) remove(found []sqlcommon.Past) error {
	var p batch
	p.statements.add(beginWrite)
	i := slices.IndexFunc(found, func(f sqlcommon.Past) bool { return f.Dead })
	if i < 0 {
		i = len(found)
	}
	many(
		&p.statements, deleteHistory, found[:i],
		func(b []byte, f sqlcommon.Past) []byte { return appendSQL(b, `(?,?)`, f.Place, f.Ended) }, `)`, 0,
	)
	key := func(b []byte, f sqlcommon.Past) []byte {
		return appendSQL(b, `(?,?,?)`, f.ID.Job, f.ID.Due, f.Place)
	}
	uncount(&p.statements, `(job, due, place) IN (`, found[i:], key)
	many(&p.statements, deleteLetters, found[i:], key, `)`, 0)
	err := l.send(&p.statements)
	if err == nil {
		err = l.clean(found, `1`)
	}
	if err != nil {
		return l.end(err)
	}
	return l.exec([]byte(`COMMIT`))
}

// The output of a run goes with the run's last record, a one-off job with the last record of all. The last ?
// of each statement says which rows history still holds.
const (
	unlessKept = ` WHERE (o.due, o.job) IN (?) AND NOT EXISTS (SELECT 1 FROM run r FORCE INDEX (PRIMARY)
  WHERE r.due = o.due AND r.job = o.job)
  AND NOT EXISTS (SELECT 1 FROM dead d FORCE INDEX (PRIMARY) WHERE d.job = o.job AND d.due = o.due)
  AND NOT EXISTS (SELECT 1 FROM history h FORCE INDEX (history_job) WHERE h.job = o.job
    AND h.due = o.due AND ?)`
	deleteResults     = `DELETE o FROM result o FORCE INDEX (PRIMARY)` + unlessKept
	deleteCheckpoints = `DELETE o FROM checkpoint o FORCE INDEX (PRIMARY)` + unlessKept
	deletePayloads    = `DELETE o FROM run_payload o FORCE INDEX (PRIMARY)` + unlessKept

	lockOneOffs = `SELECT id, namespace FROM job FORCE INDEX (PRIMARY) WHERE id IN (?) AND due IS NOT NULL
  FOR UPDATE`
	idleOneOffs = `SELECT j.id FROM job j FORCE INDEX (PRIMARY) WHERE j.id IN (?)
  AND NOT EXISTS (SELECT 1 FROM run r FORCE INDEX (run_job) WHERE r.job = j.id)
  AND NOT EXISTS (SELECT 1 FROM dead d FORCE INDEX (PRIMARY) WHERE d.job = j.id)
  AND NOT EXISTS (SELECT 1 FROM history h FORCE INDEX (history_job) WHERE h.job = j.id AND ?)`

	deleteJobs        = `DELETE job FROM job FORCE INDEX (PRIMARY) WHERE id IN (?)`
	deleteDefinitions = `DELETE definition FROM definition FORCE INDEX (PRIMARY) WHERE job IN (?)`
	deleteLabels      = `DELETE job_label FROM job_label FORCE INDEX (job_label_job) WHERE job IN (?)`
	dropGuards        = "DELETE guard FROM guard FORCE INDEX (PRIMARY) WHERE (namespace, `key`) IN (?)"
)

// clean removes rows that only forgotten runs needed. still is the condition that a row h of history is not
// forgotten.
func (l *conn) clean(found []sqlcommon.Past, still raw) error {
	for some := range slices.Chunk(found, most) {
		ids := list(some, func(b []byte, f sqlcommon.Past) []byte { return dueJob(b, f.ID) })
		var s statements
		s.add(deleteResults, ids, still)
		s.add(deleteCheckpoints, ids, still)
		s.add(deletePayloads, ids, still)
		s.add(deleteAttempts, ids, still)
		if err := l.send(&s); err != nil {
			return err
		}
		if err := l.cleanJobs(
			list(some, func(b []byte, f sqlcommon.Past) []byte { return appendValue(b, f.ID.Job) }), still,
		); err != nil {
			return err
		}
	}
	return nil
}

// cleanJobs locks the jobs and their guards before it checks whether anything of them is left: a run is
// inserted only together with one of these rows, or beside another run.
func (l *conn) cleanJobs(ids, still raw) error {
	spaces := map[carillon.JobID]string{}
	err := l.query(
		func(r row) error { spaces[carillon.JobID(r.int(0))] = r.text(1); return nil }, lockOneOffs, ids,
	)
	if err != nil || len(spaces) == 0 {
		return err
	}
	var jobs []carillon.JobID
	for id := range spaces {
		jobs = append(jobs, id)
	}
	slices.Sort(jobs)
	overlapKey := func(b []byte, id carillon.JobID) []byte {
		return appendGuardKey(b, sqlcommon.GuardKey{Namespace: spaces[id], Key: id.OverlapKey()})
	}
	if err := l.query(func(row) error { return nil }, lockGuards, list(jobs, overlapKey)); err != nil {
		return err
	}
	var idle []carillon.JobID
	err = l.query(
		func(r row) error { idle = append(idle, carillon.JobID(r.int(0))); return nil }, idleOneOffs,
		ints(jobs), still,
	)
	if err != nil || len(idle) == 0 {
		return err
	}
	var s statements
	s.add(deleteJobs, ints(idle))
	s.add(deleteDefinitions, ints(idle))
	s.add(deleteLabels, ints(idle))
	s.add(dropGuards, list(idle, overlapKey))
	return l.send(&s)
}
