package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-run/carillon"
)

// plain sends the rows of a step as arrays in one round trip, which is one transaction, on two connections.
func (p postgres) plain(ctx context.Context, at place, n int) (rate float64, err error) {
	if err := onPostgres(ctx, at.store, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, postgresPlainSchema)
		return err
	}); err != nil {
		return 0, fmt.Errorf("create the tables: %w", err)
	}
	cfg, err := pgx.ParseConfig(at.store)
	if err != nil {
		return 0, err
	}
	// The tables were empty when PostgreSQL last analyzed them, so the planner would take full scans for
	// cheap.
	for _, name := range []string{"enable_seqscan", "enable_hashjoin", "enable_mergejoin"} {
		cfg.RuntimeParams[name] = "off"
	}
	cfg.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	var conns [plainConnections]*pgx.Conn
	for i := range conns {
		if conns[i], err = pgx.ConnectConfig(ctx, cfg); err != nil {
			return 0, err
		}
		defer conns[i].Close(context.Background())
	}
	start := time.Now()
	err = pipeline(n, func(conn int, insert, claim, finish []int64) error {
		return postgresPlainStep(ctx, conns[conn], insert, claim, finish)
	})
	return float64(n) / time.Since(start).Seconds(), err
}

const postgresPlainSchema = `
CREATE TABLE job (id bigint PRIMARY KEY, rev integer NOT NULL, ns text NOT NULL, type text NOT NULL,
  payload bytea NOT NULL);
CREATE TABLE run (due bigint NOT NULL, job bigint NOT NULL, wake bigint NOT NULL, rev integer NOT NULL,
  attempt integer NOT NULL, shard smallint NOT NULL, state smallint NOT NULL, queue text NOT NULL,
  worker text, PRIMARY KEY (shard, due, job))
  WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_cost_delay = 0);
CREATE TABLE history (job bigint NOT NULL, due bigint NOT NULL, started bigint NOT NULL,
  ended bigint NOT NULL, attempt integer NOT NULL, state smallint NOT NULL, worker text, type text NOT NULL);
CREATE INDEX history_job ON history (job, due);`

// All find their rows by the primary key of run. $1 and $2 are job and due, $3 shards, $4 revisions; for
// postgresPlainJobs $2 are payloads.
const (
	postgresPlainJobs = `INSERT INTO job SELECT id, 1, 'default', 'bench', payload
  FROM unnest($1::bigint[], $2::bytea[]) x(id, payload)`
	postgresPlainRuns = `INSERT INTO run SELECT due, job, due, 1, 0, shard, 1, 'default', NULL
FROM unnest($1::bigint[], $2::bigint[], $3::smallint[]) x(job, due, shard)`
	postgresPlainClaim = `UPDATE run r SET state = 2, attempt = 1, rev = r.rev + 1, worker = 'w'
FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::integer[]) x(job, due, shard, rev)
WHERE r.shard = x.shard AND r.due = x.due AND r.job = x.job AND r.rev = x.rev`
	postgresPlainFinish = `WITH gone AS (
  DELETE FROM run r USING unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::integer[])
    x(job, due, shard, rev)
  WHERE r.shard = x.shard AND r.due = x.due AND r.job = x.job AND r.rev = x.rev RETURNING x.job, x.due)
INSERT INTO history SELECT job, due, due, due, 1, 4, 'w', 'bench' FROM gone`
)

func postgresPlainStep(ctx context.Context, conn *pgx.Conn, insert, claim, finish []int64) error {
	var batch pgx.Batch
	var rows []int
	queue := func(n int, sql string, args ...any) {
		if n > 0 {
			batch.Queue(sql, args...)
			rows = append(rows, n)
		}
	}
	queue(len(insert), postgresPlainJobs, insert, repeat([]byte(payload), len(insert)))
	queue(len(insert), postgresPlainRuns, insert, insert, shardsOf(insert))
	queue(len(claim), postgresPlainClaim, claim, claim, shardsOf(claim), repeat(int32(1), len(claim)))
	queue(len(finish), postgresPlainFinish, finish, finish, shardsOf(finish), repeat(int32(2), len(finish)))
	results := conn.SendBatch(ctx, &batch)
	for i, want := range rows {
		tag, err := results.Exec()
		if err == nil && int(tag.RowsAffected()) != want {
			err = fmt.Errorf("statement %d wrote %d rows of %d", i, tag.RowsAffected(), want)
		}
		if err != nil {
			results.Close()
			return err
		}
	}
	return results.Close()
}

func shardsOf(jobs []int64) []int16 {
	shards := make([]int16, len(jobs))
	for i, id := range jobs {
		shards[i] = int16(carillon.JobID(id).Shard())
	}
	return shards
}

func repeat[T any](v T, n int) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = v
	}
	return list
}
