package postgres

import (
	"cmp"
	"context"
	"fmt"

	"github.com/carillon-run/carillon"
)

// linesAfter reads several lines by run_hold, each from a position on.
var linesAfter = forRows("lines_after", `namespace text, hold text key, after_due int8, after_job int8,
  until int8, quota int8`,
	fmt.Sprintf(`WITH x AS MATERIALIZED (SELECT * FROM ROWS q)
SELECT r.* FROM x CROSS JOIN LATERAL (SELECT `+runColumns+` FROM carillon.run r
  WHERE r.namespace COLLATE "C" = x.namespace AND r.hold = x.hold
  AND (r.due, r.job) > (x.after_due, x.after_job) AND r.due <= x.until AND r.state = 1
  AND (r.wake <= x.until OR r.wake = %d)
  ORDER BY r.namespace COLLATE "C", r.hold, r.due, r.job LIMIT x.quota) r`, carillon.Never))

// Line implements carillon.Store.
func (s *Store) Line(ctx context.Context, q carillon.LineQuery) (found []carillon.Run, err error) {
	if len(q.Lines) == 0 {
		return nil, ctx.Err()
	}
	ask := newRows(linesAfter)
	for _, name := range q.Lines {
		ask.begin()
		ask.text(name.Namespace)
		ask.text(name.Hold)
		ask.int(int64(q.After.Due))
		ask.int(int64(q.After.Job))
		ask.int(int64(q.Until))
		ask.int(int64(cmp.Or(q.Limit, carillon.DefaultLimit)))
	}
	query := ask.call()
	query.row = func(r *row) error {
		found = append(found, r.unfinished())
		return nil
	}
	err = s.read(ctx, query)
	return found, err
}

// holdsAfter finds the lines after ($1, $2) by run_hold, one look-up for each: it passes over all runs of a
// line at once.
var holdsAfter = statement{"holds_after", `WITH RECURSIVE line AS (
  (SELECT r.namespace COLLATE "C" AS namespace, r.hold FROM carillon.run r WHERE r.hold IS NOT NULL
    AND (r.namespace COLLATE "C", r.hold) > ($1::text, $2::text)
    ORDER BY r.namespace COLLATE "C", r.hold LIMIT 1)
  UNION ALL
  SELECT next.* FROM line CROSS JOIN LATERAL (
    SELECT r.namespace COLLATE "C", r.hold FROM carillon.run r WHERE r.hold IS NOT NULL
    AND (r.namespace COLLATE "C", r.hold) > (line.namespace, line.hold)
    ORDER BY r.namespace COLLATE "C", r.hold LIMIT 1) next)
SELECT namespace, hold FROM line LIMIT $3::bigint`}

// Holds implements carillon.Store.
func (s *Store) Holds(
	ctx context.Context, after carillon.HoldName, limit int,
) (names []carillon.HoldName, err error) {
	limit = cmp.Or(limit, carillon.DefaultLimit)
	err = s.read(ctx, call{
		&holdsAfter,
		[][]byte{textParam(after.Namespace), textParam(after.Hold), int8Param(int64(limit))},
		func(r *row) error {
			names = append(names, carillon.HoldName{Namespace: r.name(), Hold: r.text()})
			return nil
		},
	})
	return names, err
}

// countRuns counts the runs of the namespace $1 that carillon.CountOf counts at $2. It reads the whole table
// in the order of its rows: an index for people who look at a queue now and then would cost every run.
var countRuns = statement{"count_runs", fmt.Sprintf(`SELECT queue, state, line, stopped, count(*), min(due)
FROM (SELECT queue, state, waits AND paused AS stopped, due,
    CASE WHEN waits AND NOT paused AND wake = %[1]d THEN hold END AS line
  FROM (SELECT r.queue, r.state, r.hold, r.wake, r.due, r.state = 1 AS waits,
      coalesce(r.flags, 0) & %[2]d <> 0 AS paused FROM carillon.run r
    WHERE r.ctid >= '(0,0)'::tid AND r.namespace = $1::text) r
  WHERE NOT waits OR due <= $2::bigint
    AND CASE WHEN paused THEN wake = %[1]d ELSE wake <= $2::bigint OR wake = %[1]d AND hold IS NOT NULL END) r
GROUP BY queue, state, line, stopped`, carillon.Never, carillon.FlagOnHold)}

// Counts implements carillon.Store.
func (s *Store) Counts(
	ctx context.Context, namespace string, now carillon.Time,
) (counts []carillon.QueueCount, err error) {
	err = s.read(ctx, call{
		&countRuns,
		[][]byte{textParam(namespace), int8Param(int64(now))},
		func(r *row) error {
			counts = append(counts, carillon.QueueCount{
				Queue: r.name(), State: carillon.State(r.int()), Hold: r.text(), Paused: r.bool(),
				Runs: int(r.int()), Oldest: carillon.Time(r.int()),
			})
			return nil
		},
	})
	return counts, err
}
