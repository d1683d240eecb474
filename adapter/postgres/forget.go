package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// forgetter remembers how far history has been searched.
type forgetter struct {
	mu sync.Mutex // one at a time
	// passed is a place up to which the server's rule has nothing left to remove: each record was removed, or
	// has its own expiry.
	passed int64
	days   time.Time // when tendDays last ran
}

// Forget implements carillon.Store. It deletes all records that it found by their keys, in one transaction,
// together with the rows that were kept only for them. Once an hour it drops the days of history that are
// over and empty, and with them the dead rows that deleting leaves behind.
func (s *Store) Forget(
	ctx context.Context, rule carillon.Retention, now carillon.Time, limit int,
) (forgotten int, err error) {
	if limit <= 0 {
		return 0, ctx.Err()
	}
	s.forget.mu.Lock()
	defer s.forget.mu.Unlock()
	found, reached, err := s.overdue(ctx, rule, now, limit)
	if err == nil && len(found) > 0 {
		forgotten, err = s.remove(ctx, found)
	}
	if err == nil {
		s.forget.passed = reached
	}
	if err == nil && len(found) < limit {
		err = s.removeGuards(ctx, now.Add(-carillon.GuardGrace), limit-len(found), &forgotten)
	}
	if err == nil {
		err = s.fillFingerprints(ctx)
	}
	if err == nil && time.Since(s.forget.days) > time.Hour {
		s.forget.days = time.Now()
		err = s.tendDays(ctx)
	}
	if err != nil {
		return forgotten, fmt.Errorf("forget: %w", err)
	}
	return forgotten, nil
}

// Records that can be removed: by the server's rule in the order of ending, from where the last search
// stopped, and by their own expiry with history_expires; dead letters by dead_ended and dead_expires. $1 is
// where to begin or how far to go, $2 how many.
var (
	historyByRule = statement{"history_by_rule", `SELECT place, job, due, ended FROM carillon.history
WHERE place > $1::bigint AND expires IS NULL ORDER BY place LIMIT $2::bigint`}
	historyByOwn = statement{"history_by_own", `SELECT place, job, due, ended FROM carillon.history
WHERE expires <= $1::bigint AND expires IS NOT NULL ORDER BY expires, place LIMIT $2::bigint`}
	deadByRule = statement{"dead_by_rule", `SELECT place, job, due, ended FROM carillon.dead
WHERE ended <= $1::bigint AND expires IS NULL ORDER BY ended, place LIMIT $2::bigint`}
	deadByOwn = statement{"dead_by_own", `SELECT place, job, due, ended FROM carillon.dead
WHERE expires <= $1::bigint AND expires IS NOT NULL ORDER BY expires, place LIMIT $2::bigint`}
)

// overdue returns the records that can be removed, and the value of passed once they are.
func (s *Store) overdue(
	ctx context.Context, rule carillon.Retention, now carillon.Time, limit int,
) (found []sqlcommon.Past, reached int64, err error) {
	byRule := sqlcommon.ByRule{Until: now.Add(-rule.Runs.Std()), Limit: limit, Reached: s.forget.passed}
	if rule.Runs != 0 {
		more := true
		params := [][]byte{int8Param(s.forget.passed), int8Param(int64(limit + sqlcommon.MaxYoung))}
		err = s.read(ctx, call{&historyByRule, params, func(r *row) error {
			more = more && byRule.Add(r.past(false))
			return nil
		}})
		if err != nil {
			return nil, 0, err
		}
	}
	reached = max(s.forget.passed, time.Now().Add(-settled).UnixMilli()<<placeBits)
	found, err = sqlcommon.Overdue(byRule.Found, rule, now, limit,
		func(from sqlcommon.PastSource, until carillon.Time, limit int) (found []sqlcommon.Past, err error) {
			params := [][]byte{int8Param(int64(until)), int8Param(int64(limit))}
			err = s.read(ctx, call{overdueIn[from], params, func(r *row) error {
				found = append(found, r.past(from.Table == sqlcommon.TableDead))
				return nil
			}})
			return found, err
		})
	return found, min(reached, byRule.Reached), err
}

var overdueIn = map[sqlcommon.PastSource]*statement{
	{Table: sqlcommon.TableHistory, Own: true}: &historyByOwn,
	{Table: sqlcommon.TableDead}:               &deadByRule,
	{Table: sqlcommon.TableDead, Own: true}:    &deadByOwn,
}

func (r *row) past(dead bool) sqlcommon.Past {
	return sqlcommon.Past{Place: r.int(), ID: r.runID(), Ended: carillon.Time(r.int()), Dead: dead}
}

// settled is the age from which no record can appear before a place any more: a transaction that got a place
// may commit later than others that got a higher one.
const settled = time.Hour

// Removal, kind by kind. The outputs of a run go with its last record, a one-off job goes with the last
// record of all its runs. The job and its guard are locked before the statements check what else is left,
// because a change that adds a run compares one of them. OFFSET 0 keeps each subquery separate: in a join the
// planner might use only half of a key.
var (
	deleteHistory = statement{"delete_history", `WITH hit AS (DELETE FROM carillon.history h
  USING unnest($1::bigint[]) x(place) WHERE h.place = ANY(ARRAY[x.place]) RETURNING 1)
SELECT count(*) FROM hit`}
	deleteLetters = statement{"delete_letters", `WITH hit AS (DELETE FROM carillon.dead d
  USING unnest($1::bigint[]) x(place) WHERE d.place = ANY(ARRAY[x.place]) RETURNING 1)
SELECT count(*) FROM hit`}

	lockOwners = statement{
		"lock_owners",
		`SELECT 1 FROM unnest($1::bigint[]) x(id) JOIN carillon.job j ON j.id = ANY(ARRAY[x.id])
  FOR UPDATE OF j`,
	}
	lockTurns = statement{"lock_turns", `SELECT 1 FROM unnest($1::bigint[], $2::text[]) x(id, key)
  JOIN carillon.job j ON j.id = ANY(ARRAY[x.id])
CROSS JOIN LATERAL (SELECT 1 FROM carillon.guard g WHERE g.namespace = j.namespace
  AND g.key = x.key OFFSET 0 FOR UPDATE) g`}

	unlessKept = ` USING ROWS x WHERE o.job = ANY(ARRAY[x.job]) AND o.due = x.due
  AND NOT EXISTS (SELECT FROM carillon.run r WHERE r.shard = x.shard AND r.due = x.due
  AND r.job = x.job OFFSET 0)
  AND NOT EXISTS (SELECT FROM carillon.history h WHERE h.job = x.job AND h.due = x.due OFFSET 0)
  AND NOT EXISTS (SELECT FROM carillon.dead d WHERE d.job = x.job AND d.due = x.due OFFSET 0)`
	deleteResults = forRows(
		"delete_results", `shard int2 key, due int8 key, job int8 key`,
		`DELETE FROM carillon.result o`+unlessKept,
	)
	deleteCheckpoints = forRows(
		"delete_checkpoints", `shard int2 key, due int8 key, job int8 key`,
		`DELETE FROM carillon.checkpoint o`+unlessKept,
	)
	deletePayloads = forRows(
		"delete_payloads", `shard int2 key, due int8 key, job int8 key`,
		`DELETE FROM carillon.run_payload o`+unlessKept,
	)

	deleteJobs = forRows("delete_jobs", `shard int2 key, id int8 key, turn text key`,
		`WITH gone AS (DELETE FROM carillon.job j USING ROWS x
  WHERE j.id = ANY(ARRAY[x.id]) AND j.due IS NOT NULL
  AND NOT EXISTS (SELECT FROM carillon.run r WHERE r.shard = x.shard AND r.due = j.due
  AND r.job = j.id OFFSET 0)
  AND NOT EXISTS (SELECT FROM carillon.run r WHERE r.job = j.id AND r.extra OFFSET 0)
  AND NOT EXISTS (SELECT FROM carillon.history h WHERE h.job = j.id OFFSET 0)
  AND NOT EXISTS (SELECT FROM carillon.dead d WHERE d.job = j.id OFFSET 0)
  RETURNING j.id, j.namespace, x.turn),
older AS (DELETE FROM carillon.definition d USING gone WHERE d.job = ANY(ARRAY[gone.id])),
labels AS (DELETE FROM carillon.job_label l USING gone WHERE l.job = ANY(ARRAY[gone.id]))
DELETE FROM carillon.guard g USING gone WHERE g.namespace = ANY(ARRAY[gone.namespace])
  AND g.key = gone.turn`)
)

// remove deletes records, and the rows that were kept only for them, in one transaction.
func (s *Store) remove(ctx context.Context, found []sqlcommon.Past) (forgotten int, err error) {
	var history, letters []int64
	results, checkpoints := newRows(deleteResults), newRows(deleteCheckpoints)
	payloads, attempts := newRows(deletePayloads), newRows(deleteAttempts)
	var jobs []carillon.JobID
	for _, p := range found {
		if p.Dead {
			letters = append(letters, p.Place)
		} else {
			history = append(history, p.Place)
		}
		results.runKey(p.ID)
		checkpoints.runKey(p.ID)
		payloads.runKey(p.ID)
		attempts.runKey(p.ID)
		jobs = append(jobs, p.ID.Job)
	}
	slices.Sort(jobs) // so that all transactions lock jobs in one order
	jobs = slices.Compact(jobs)
	turns := make([]string, len(jobs))
	owners := newRows(deleteJobs)
	for i, job := range jobs {
		turns[i] = job.OverlapKey()
		owners.begin()
		owners.int(int64(job.Shard()))
		owners.int(int64(job))
		owners.text(turns[i])
	}
	count := func(r *row) error { forgotten += int(r.int()); return nil }
	calls := []call{
		{&lockOwners, [][]byte{int8Array(jobs)}, nil},
		{&lockTurns, [][]byte{int8Array(jobs), textArray(turns)}, nil},
		{&deleteHistory, [][]byte{int8Array(history)}, count},
		{&deleteLetters, [][]byte{int8Array(letters)}, count},
		results.call(), checkpoints.call(), payloads.call(), attempts.call(), owners.call(),
	}
	err = s.with(ctx, s.writers, func(ctx context.Context, c *conn) error {
		err := c.do(ctx, transaction{}, calls...)
		for try := 0; again(err) && try < maxTries; try++ {
			forgotten = 0
			err = c.do(ctx, transaction{}, calls...)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return forgotten, nil
}

// removeGuards removes guards that expired until $1, $2 at most, earliest first, by guard_expires. It passes
// over those that a commit is writing: to wait for them while it holds others could deadlock.
var removeGuards = statement{"remove_guards", `WITH gone AS (SELECT namespace, key FROM carillon.guard
  WHERE expires <= $1::bigint AND expires IS NOT NULL ORDER BY expires, namespace, key LIMIT $2::bigint
  FOR UPDATE SKIP LOCKED),
hit AS (DELETE FROM carillon.guard g USING gone WHERE g.namespace = ANY(ARRAY[gone.namespace])
  AND g.key = gone.key
  RETURNING 1)
SELECT count(*) FROM hit`}

func (s *Store) removeGuards(
	ctx context.Context, until carillon.Time, limit int, forgotten *int,
) error {
	return s.with(ctx, s.writers, func(ctx context.Context, c *conn) error {
		params := [][]byte{int8Param(int64(until)), int8Param(int64(limit))}
		return c.do(ctx, transaction{}, call{&removeGuards, params, func(r *row) error {
			*forgotten += int(r.int())
			return nil
		}})
	})
}
