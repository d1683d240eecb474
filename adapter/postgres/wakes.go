package postgres

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/carillon-run/carillon"
)

// Stretches of the hot table, one for each shard, each read from a position on: runs that wake when they are
// due, by the primary key, and runs that left their due time, by run_wake. Both are one statement, so that a
// run that moves from one to the other is always in one of them. With lanes, the statement returns up to
// quota runs out of the next reach runs. cut marks the last of these reach runs, which is returned whatever
// its lane is. That is more work for each run, so a lane that most runs belong to is read like all lanes.
// dueInShards reads all runs by the primary key.
const (
	stretchRow = `shard int2 key, moved bool key, after_wake int8 key, after_due int8 key,
  after_job int8 key, until int8, namespace text, queue text, needs text, share text, priority int2,
  full_namespace text, full_queue text, full_needs text, full_share text, full_priority int2, full text,
  reach int8, quota int8`

	ofLane = `, row_number() OVER () = x.reach AS cut`
	inLane = ` WHERE r.cut OR (x.queue IS NULL OR r.queue = x.queue AND r.priority = x.priority
  AND r.namespace = x.namespace AND coalesce(r.needs, '') = x.needs
  AND (x.share IS NULL OR coalesce(r.share, '') = x.share))
  AND NOT (r.state = 1 AND coalesce(r.queue = x.full_queue AND r.priority = x.full_priority
  AND r.namespace = x.full_namespace AND coalesce(r.needs, '') = x.full_needs
  AND coalesce(r.share, '') = x.full_share,
    position(E'\n' || r.namespace || '=' || r.queue || '=' || coalesce(r.needs, '') || '='
      || coalesce(r.share, '') || '=' || r.priority || E'\n' IN x.full) > 0, false))
  LIMIT x.quota) r`
)

var (
	wakesInShards = forRows("wakes_in_shards", stretchRow, `WITH x AS MATERIALIZED (SELECT * FROM ROWS q)
SELECT x.moved, false, r.* FROM x CROSS JOIN LATERAL (SELECT `+runColumns+` FROM carillon.run r
  WHERE r.shard = x.shard AND (r.due, r.job) > (x.after_due, x.after_job) AND r.due <= x.until
  AND r.wake = r.due
  ORDER BY r.due, r.job LIMIT x.quota) r WHERE NOT x.moved
UNION ALL
SELECT x.moved, false, r.* FROM x CROSS JOIN LATERAL (SELECT `+runColumns+` FROM carillon.run r
  WHERE r.shard = x.shard AND (r.wake, r.due, r.job) > (x.after_wake, x.after_due, x.after_job)
  AND r.wake <= x.until AND r.wake <> r.due
  ORDER BY r.wake, r.due, r.job LIMIT x.quota) r WHERE x.moved`)

	// Held runs alone: the statement passes over waiting runs on the way, which takes a fraction of the time
	// to count them.
	heldInShards = forRows("held_in_shards", stretchRow, `WITH x AS MATERIALIZED (SELECT * FROM ROWS q)
SELECT x.moved, false, r.* FROM x CROSS JOIN LATERAL (SELECT `+runColumns+` FROM carillon.run r
  WHERE r.shard = x.shard AND (r.due, r.job) > (x.after_due, x.after_job) AND r.due <= x.until
  AND r.wake = r.due AND r.state <> 1
  ORDER BY r.due, r.job LIMIT x.quota) r WHERE NOT x.moved
UNION ALL
SELECT x.moved, false, r.* FROM x CROSS JOIN LATERAL (SELECT `+runColumns+` FROM carillon.run r
  WHERE r.shard = x.shard AND (r.wake, r.due, r.job) > (x.after_wake, x.after_due, x.after_job)
  AND r.wake <= x.until AND r.wake <> r.due AND r.state <> 1
  ORDER BY r.wake, r.due, r.job LIMIT x.quota) r WHERE x.moved`)

	wakesInLanes = forRows("wakes_in_lanes", stretchRow, `WITH x AS MATERIALIZED (SELECT * FROM ROWS q)
SELECT x.moved, r.* FROM x CROSS JOIN LATERAL (SELECT r.cut, `+runColumns+` FROM (SELECT r.*`+ofLane+`
  FROM (SELECT * FROM carillon.run r
  WHERE r.shard = x.shard AND (r.due, r.job) > (x.after_due, x.after_job) AND r.due <= x.until
  AND r.wake = r.due
  ORDER BY r.due, r.job LIMIT x.reach) r) r`+inLane+` WHERE NOT x.moved
UNION ALL
SELECT x.moved, r.* FROM x CROSS JOIN LATERAL (SELECT r.cut, `+runColumns+` FROM (SELECT r.*`+ofLane+`
  FROM (SELECT * FROM carillon.run r
  WHERE r.shard = x.shard AND (r.wake, r.due, r.job) > (x.after_wake, x.after_due, x.after_job)
  AND r.wake <= x.until AND r.wake <> r.due
  ORDER BY r.wake, r.due, r.job LIMIT x.reach) r) r`+inLane+` WHERE x.moved`)

	dueInShards = forRows("due_in_shards", stretchRow, `SELECT x.moved, false, r.* FROM ROWS x
  CROSS JOIN LATERAL (
  SELECT `+runColumns+` FROM carillon.run r WHERE r.shard = x.shard
  AND (r.due, r.job) > (x.after_due, x.after_job) AND r.due <= x.until
  ORDER BY r.due, r.job LIMIT x.quota) r`)
)

// Wakes implements carillon.Store.
func (s *Store) Wakes(ctx context.Context, q carillon.WakeQuery) ([]carillon.Run, error) {
	if q.Shards != nil && len(q.Shards) == 0 {
		return nil, ctx.Err()
	}
	m := merge{by: wakesInShards, read: s.read, until: q.Until, pos: (*carillon.Run).WakePos}
	if q.Held {
		m.by = heldInShards
	} else if q.Lane != nil || len(q.Full) > 0 {
		m.reach, m.lanes = s.maxReach, &q
	}
	if q.Lane == nil && m.lanes != nil { // the shards share one reach
		m.by, m.reach = wakesInLanes, max(m.reach/len(shardsOf(q.Shards)), 1)
	}
	first, err := s.firstDues(ctx, &q)
	if err != nil {
		return nil, err
	}
	for _, shard := range shardsOf(q.Shards) {
		after := atDue(q.After)
		if due, known := first[shard]; known {
			after = carillon.RunID{Due: due - 1, Job: math.MaxInt64}
		}
		m.add(shard, false, carillon.WakePos{ID: after})
		m.add(shard, true, q.After)
	}
	return m.next(ctx, cmp.Or(q.Limit, carillon.DefaultLimit))
}

// In the order of rows in the table, not by an index: each page is read once, whatever shards its rows belong
// to. Only if, as far as the server knows, more rows are dead than alive, and the table is smaller than $1;
// that is checked once, not for every row.
var firstDues = statement{"first_dues", `SELECT r.shard, min(r.due) FROM carillon.run r
WHERE r.ctid >= '(0,0)'::tid AND (SELECT pg_relation_size(t) < $1::bigint
  AND pg_stat_get_dead_tuples(t) > greatest(100000, pg_stat_get_live_tuples(t))
  FROM (SELECT 'carillon.run'::regclass AS t) t)
GROUP BY r.shard`}

// maxTable is the largest table that is scanned to find out where shards begin: about a third of a second.
const maxTable = 512 << 20

// firstDues tells where the shards begin, for a query from the very beginning. While a session keeps a
// transaction open, the rows of runs that have ended since cannot be cleaned up. A read by the index would
// pass over all of them for each shard, in an order that visits every page of the table again and again.
func (s *Store) firstDues(ctx context.Context, q *carillon.WakeQuery) (map[int]carillon.Time, error) {
	if q.After != (carillon.WakePos{}) {
		return nil, nil
	}
	first := map[int]carillon.Time{}
	return first, s.read(ctx, call{&firstDues, [][]byte{int8Param(maxTable)}, func(r *row) error {
		shard := int(r.int())
		first[shard] = carillon.Time(r.int())
		return nil
	}})
}

func shardsOf(shards []int) []int {
	if shards == nil {
		shards = make([]int, carillon.Shards)
		for i := range shards {
			shards[i] = i
		}
		return shards
	}
	shards = slices.Clone(shards)
	slices.Sort(shards)
	return slices.Compact(shards)
}

// atDue returns the run after which to go on, from a position, among the runs that wake at their due time.
func atDue(after carillon.WakePos) carillon.RunID {
	switch {
	case after.ID.Due < after.Wake: // moved to a later time: it comes before all runs that are due then
		return carillon.RunID{Due: after.Wake, Job: math.MinInt64}
	case after.ID.Due > after.Wake: // moved to an earlier time: it comes after them
		return carillon.RunID{Due: after.Wake, Job: math.MaxInt64}
	}
	return after.ID
}
