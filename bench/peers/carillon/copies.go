package main

import (
	"context"
	"errors"
	"path/filepath"
	"sync"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/node"
)

// perMilli is how many copies seem to have been submitted and to have ended in each millisecond: a realistic
// rate.
const perMilli = 100

// idBits are the bits of an id below its milliseconds.
const idBits = 22

// copies are copies of a job that has ended and of the record of its run. They are in the past, up to back
// milliseconds before the original, with the ids that they would have got then, so that the ids of later jobs
// are above them.
type copies struct {
	jobs  int
	of    int64 // the original job
	first int64 // first id
	back  int64
}

func firstCopy(of carillon.JobID, jobs int) int64 {
	return (int64(of)>>idBits - int64(jobs/perMilli+10)) << idBits
}

func (c copies) id(i int) int64 { return c.first + int64(i/perMilli)<<idBits + int64(i%perMilli) }

// All take i from $3 up to $4, from generate_series or its like: $1 is the original job, $2 the first id, $5
// how far back the first copy is. i / 100 is the millisecond.
const (
	copyJobPostgres = `INSERT INTO carillon.job (id, created, updated, due, rev, version, state, namespace,
  name, type, owner, spec, payload)
SELECT $2::bigint + ((i / 100) << 22) + i % 100, created - $5::bigint + i / 100, updated - $5 + i / 100,
  due - $5 + i / 100, rev, version, state, namespace, name, type, owner, spec, payload
FROM carillon.job, generate_series($3::bigint, $4::bigint - 1) i WHERE id = $1`

	copyHistoryPostgres = `INSERT INTO carillon.history (place, job, due, covers, until, claimed, started,
  ended, expires, retry_of, version, seq, attempt, failures, losses, crashes, state, priority, namespace,
  queue, name, type, owner, worker, reason)
SELECT (((place >> 20) - $5::bigint + i / 100) << 20) + i % 100, $2::bigint + ((i / 100) << 22) + i % 100,
  due - $5 + i / 100,
  CASE covers WHEN 0 THEN 0 ELSE covers - $5 + i / 100 END, until, claimed - $5 + i / 100,
  started - $5 + i / 100, ended - $5 + i / 100, expires, retry_of, version, seq, attempt, failures, losses,
  crashes, state, priority, namespace, queue, name, type, owner, worker, reason
FROM carillon.history, generate_series($3::bigint, $4::bigint - 1) i WHERE job = $1`

	series = `WITH RECURSIVE series(i) AS (SELECT ?3 UNION ALL SELECT i + 1 FROM series WHERE i + 1 < ?4) `

	copyJobSQLite = series + `INSERT INTO job (id, namespace, rev, version, state, created, updated, due,
  name, type, owner, spec, payload)
SELECT ?2 + ((i / 100) << 22) + i % 100, namespace, rev, version, state, created - ?5 + i / 100,
  updated - ?5 + i / 100, due - ?5 + i / 100, name, type, owner, spec, payload
FROM series, job WHERE id = ?1`

	copyHistorySQLite = series + `INSERT INTO history (namespace, job, due, covers, until, claimed, started,
  ended, expires, retry_of, version, seq, attempt, failures, losses, crashes, state, priority, queue, name,
  type, owner, worker, reason)
SELECT namespace, ?2 + ((i / 100) << 22) + i % 100, due - ?5 + i / 100, CASE covers WHEN 0 THEN 0
  ELSE covers - ?5 + i / 100 END, until, claimed - ?5 + i / 100, started - ?5 + i / 100,
  ended - ?5 + i / 100, expires, retry_of, version, seq, attempt, failures, losses, crashes,
  state, priority, queue, name, type, owner, worker, reason
FROM series, history WHERE job = ?1`
)

// atOnce is how many copies one statement makes.
const atOnce = 100_000

// postgres makes both kinds at the same time, each on its own connection.
func (c copies) postgres(ctx context.Context, url string) error {
	var errs [2]error
	var wg sync.WaitGroup
	for i, sql := range []string{copyJobPostgres, copyHistoryPostgres} {
		wg.Go(func() {
			conn, err := pgx.Connect(ctx, url)
			if err != nil {
				errs[i] = err
				return
			}
			defer conn.Close(context.Background())
			errs[i] = c.batches(func(from, to int) error {
				_, err := conn.Exec(ctx, sql, c.of, c.first, from, to, c.back)
				return err
			})
		})
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

func (c copies) sqlite(_ context.Context, cfg node.Config) error {
	conn, err := sqlite.OpenConn(filepath.Join(cfg.Data, "carillon.db"), sqlite.OpenReadWrite, sqlite.OpenWAL)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, pragma := range []string{"synchronous=NORMAL", "cache_size=-262144", "wal_autocheckpoint=50000"} {
		if err := sqlitex.ExecuteTransient(conn, "PRAGMA "+pragma, nil); err != nil {
			return err
		}
	}
	return c.batches(func(from, to int) error {
		args := &sqlitex.ExecOptions{Args: []any{c.of, c.first, from, to, c.back}}
		return errors.Join(
			sqlitex.Execute(conn, copyJobSQLite, args), sqlitex.Execute(conn, copyHistorySQLite, args),
		)
	})
}

func (c copies) batches(do func(from, to int) error) error {
	for from := 0; from < c.jobs; from += atOnce {
		if err := do(from, min(from+atOnce, c.jobs)); err != nil {
			return err
		}
	}
	return nil
}
