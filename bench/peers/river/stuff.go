package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-run/carillon/bench/peers/peer"
)

// Inputs: how many, the payload. A row as Insert writes it.
const stuffAhead = `INSERT INTO river_job (state, max_attempts, priority, args, kind, queue, tags,
  scheduled_at)
SELECT 'scheduled', 25, 1, $2::jsonb, 'bench', 'default', '{}', now() + interval '1 day'
  FROM generate_series(1, $1)`

// Inputs: how many, the payload. A row as the completer leaves it; each job ended a little after the previous
// one.
const stuffEnded = `INSERT INTO river_job
  (state, max_attempts, priority, args, kind, queue, tags, attempt, attempted_by, created_at, scheduled_at,
  attempted_at, finalized_at)
SELECT 'completed', 25, 1, $2::jsonb, 'bench', 'default', '{}', 1, ARRAY['bench_worker'], t, t, t,
  t + interval '5 ms'
  FROM generate_series(1, $1) AS i,
  LATERAL (SELECT now() - interval '1 hour' + i * interval '100 us' AS t) AS at`

const (
	indexesOf = `SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'river_job'
  AND indexname <> 'river_job_pkey'`
	memory = `SET maintenance_work_mem = '1GB'`
)

// Stuff builds River's indexes, two of them GIN, after the rows are in: ten million rows take minutes instead
// of an hour, and the indexes are as good as they can be.
func (r *rivers) Stuff(ctx context.Context, jobs int, ended bool) error {
	conn, err := r.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, indexesOf)
	if err != nil {
		return err
	}
	type index struct{ Name, Definition string }
	indexes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[index])
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, memory); err != nil {
		return err
	}
	for _, i := range indexes {
		if _, err := conn.Exec(ctx, `DROP INDEX `+pgx.Identifier{i.Name}.Sanitize()); err != nil {
			return err
		}
	}
	insert := stuffAhead
	if ended {
		insert = stuffEnded
	}
	if _, err := conn.Exec(ctx, insert, jobs, string(peer.Job{}.Payload())); err != nil {
		return err
	}
	for _, i := range indexes {
		if _, err := conn.Exec(ctx, i.Definition); err != nil {
			return fmt.Errorf("index %s again: %w", i.Name, err)
		}
	}
	_, err = conn.Exec(ctx, `VACUUM ANALYZE river_job`)
	return err
}
