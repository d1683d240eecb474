package postgres

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/carillon-run/carillon"
)

// Stretches of the hot table, one for each shard, each read from a position on: those that wake when they are due, by the
// primary key, and those that left their due time, by run_wake. Together they are one statement, so that a run that moves
// from one to the other is in one of them. Where lanes are chosen there are up to quota runs among the next reach ones; cut
// says that the run is the last of those, and of which lane it is does not matter then. That is more work for each of them, so a
// lane that most runs are of is read like all. dueInShards is all by the primary key.
const (
	stretchRow = `shard int2 key, moved bool key, after_wake int8 key, after_due int8 key, after_job int8 key, until int8, queue text, prio int2,
  full_queue text, full_prio int2, full text, reach int8, quota int8`

	ofLane = `, row_number() OVER () = x.reach AS cut`
	inLane = ` WHERE r.cut OR (x.queue IS NULL OR r.queue = x.queue AND r.prio = x.prio)
  AND NOT (r.state = 1 AND coalesce(r.queue = x.full_queue AND r.prio = x.full_prio, position(E'\n' || r.queue || '=' || r.prio || E'\n' IN x.full) > 0, false))
  LIMIT x.quota) r`
)

var (
	wakesInShards = forRows("wakes_in_shards", stretchRow, `WITH x AS MATERIALIZED (SELECT * FROM ROWS q)
SELECT x.moved, false, r.* FROM x CROSS JOIN LATERAL (SELECT `+runColumns+` FROM carillon.run r
  WHERE r.shard = x.shard AND (r.due, r.job) > (x.after_due, x.after_job) AND r.due <= x.until AND r.wake = r.due
  ORDER BY r.due, r.job LIMIT x.quota) r WHERE NOT x.moved
UNION ALL
SELECT x.moved, false, r.* FROM x CROSS JOIN LATERAL (SELECT `+runColumns+` FROM carillon.run r
  WHERE r.shard = x.shard AND (r.wake, r.due, r.job) > (x.after_wake, x.after_due, x.after_job) AND r.wake <= x.until AND r.wake <> r.due
  ORDER BY r.wake, r.due, r.job LIMIT x.quota) r WHERE x.moved`)

	// Held runs alone: those that wait are passed over on the way, which takes a fraction of what it takes to count them.
	heldInShards = forRows("held_in_shards", stretchRow, `WITH x AS MATERIALIZED (SELECT * FROM ROWS q)
SELECT x.moved, false, r.* FROM x CROSS JOIN LATERAL (SELECT `+runColumns+` FROM carillon.run r
  WHERE r.shard = x.shard AND (r.due, r.job) > (x.after_due, x.after_job) AND r.due <= x.until AND r.wake = r.due AND r.state <> 1
  ORDER BY r.due, r.job LIMIT x.quota) r WHERE NOT x.moved
UNION ALL
SELECT x.moved, false, r.* FROM x CROSS JOIN LATERAL (SELECT `+runColumns+` FROM carillon.run r
  WHERE r.shard = x.shard AND (r.wake, r.due, r.job) > (x.after_wake, x.after_due, x.after_job) AND r.wake <= x.until AND r.wake <> r.due AND r.state <> 1
  ORDER BY r.wake, r.due, r.job LIMIT x.quota) r WHERE x.moved`)

	wakesInLanes = forRows("wakes_in_lanes", stretchRow, `WITH x AS MATERIALIZED (SELECT * FROM ROWS q)
SELECT x.moved, r.* FROM x CROSS JOIN LATERAL (SELECT r.cut, `+runColumns+` FROM (SELECT r.*`+ofLane+` FROM (SELECT * FROM carillon.run r
  WHERE r.shard = x.shard AND (r.due, r.job) > (x.after_due, x.after_job) AND r.due <= x.until AND r.wake = r.due
  ORDER BY r.due, r.job LIMIT x.reach) r) r`+inLane+` WHERE NOT x.moved
UNION ALL
SELECT x.moved, r.* FROM x CROSS JOIN LATERAL (SELECT r.cut, `+runColumns+` FROM (SELECT r.*`+ofLane+` FROM (SELECT * FROM carillon.run r
  WHERE r.shard = x.shard AND (r.wake, r.due, r.job) > (x.after_wake, x.after_due, x.after_job) AND r.wake <= x.until AND r.wake <> r.due
  ORDER BY r.wake, r.due, r.job LIMIT x.reach) r) r`+inLane+` WHERE x.moved`)

	dueInShards = forRows("due_in_shards", stretchRow, `SELECT x.moved, false, r.* FROM ROWS x CROSS JOIN LATERAL (
  SELECT `+runColumns+` FROM carillon.run r WHERE r.shard = x.shard AND (r.due, r.job) > (x.after_due, x.after_job) AND r.due <= x.until
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
	if q.Lane == nil && m.lanes != nil { // of each shard: altogether it is as much as in a lane
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

// By the place of rows in the table, not by an index: each page is read once, whatever shards its rows are of. Only where more
// rows are dead than alive, as far as the server knows, and the table is smaller than $1; asked once, not for every row.
var firstDues = statement{"first_dues", `SELECT r.shard, min(r.due) FROM carillon.run r
WHERE r.ctid >= '(0,0)'::tid AND (SELECT pg_relation_size(t) < $1::bigint
  AND pg_stat_get_dead_tuples(t) > greatest(100000, pg_stat_get_live_tuples(t)) FROM (SELECT 'carillon.run'::regclass AS t) t)
GROUP BY r.shard`}

// maxTable is up to what size the table is gone through to find out where shards begin: about a third of a second.
const maxTable = 512 << 20

// firstDues says for a query from the very beginning where the shards begin. While somebody holds a transaction open, what
// has ended since cannot be cleaned up, and by the index of each shard one would go past all of it in an order that visits
// every page of the table again and again.
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

// atDue is the run after which those that wake when they are due go on from a position.
func atDue(after carillon.WakePos) carillon.RunID {
	switch {
	case after.ID.Due < after.Wake: // a run that was moved there comes before all that are due then
		return carillon.RunID{Due: after.Wake, Job: math.MinInt64}
	case after.ID.Due > after.Wake: // and one that was moved forward behind them
		return carillon.RunID{Due: after.Wake, Job: math.MaxInt64}
	}
	return after.ID
}
