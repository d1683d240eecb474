package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-run/carillon"
)

// logDays ensures that today and tomorrow have their partitions. If that fails nothing is lost: rows without
// a partition go to log_other.
type logDays struct {
	mu    sync.Mutex
	until time.Time // no need to check before
}

const (
	lookEvery = time.Hour   // far less than the day that it is ahead
	lookAgain = time.Minute // after a failure
)

// The first milliseconds of today and tomorrow, by the clock of the database.
var addLogDays = statement{"add_log_days", `
SELECT carillon.add_log_day(day) FROM (SELECT carillon.clock() / 86400000 * 86400000 AS today) x,
  unnest(ARRAY[today, today + 86400000]) day`}

func (d *logDays) ahead(ctx context.Context, store *Store) {
	now := time.Now()
	d.mu.Lock()
	due := !now.Before(d.until)
	if due {
		// One of the callers that append checks, the others go on.
		d.until = now.Add(lookAgain)
	}
	d.mu.Unlock()
	if !due {
		return
	}
	if err := store.beside(ctx, call{statement: &addLogDays}); err == nil {
		d.mu.Lock()
		d.until = now.Add(lookEvery)
		d.mu.Unlock()
	}
}

// $1 now, $2 since when pieces without their own time are kept. The horizon never goes back: trimmed pieces
// stay trimmed.
var setLogHorizon = statement{"set_log_horizon", `
UPDATE carillon.log_horizon SET at = greatest(at, $1::bigint), before = greatest(before, $2::bigint)`}

// Trim hides old pieces at once. Their rows go with the whole day if all of it is old. They go one by one if
// a job has its own time, if some of an old day is still kept, or if the role has no right to drop the day.
func (l *Logs) Trim(ctx context.Context, now carillon.Time, keep time.Duration) error {
	before := now.Add(-keep)
	params := [][]byte{int8Param(int64(now)), int8Param(int64(before))}
	if err := l.store.beside(ctx, call{statement: &setLogHorizon, params: params}); err != nil {
		return fmt.Errorf("trim logs: %w", err)
	}
	parts, err := l.partitions(ctx)
	if err != nil {
		return fmt.Errorf("trim logs: %w", err)
	}
	for _, part := range parts {
		if err := l.trimPartition(ctx, part, before); err != nil {
			return fmt.Errorf("trim %s: %w", part, err)
		}
	}
	return nil
}

var listLogPartitions = statement{"list_log_partitions", `
SELECT relname::text FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
  WHERE inhparent = 'carillon.log'::regclass ORDER BY 1`}

func (l *Logs) partitions(ctx context.Context) (parts []string, err error) {
	err = l.store.read(ctx, call{&listLogPartitions, nil, func(r *row) error {
		parts = append(parts, r.text())
		return nil
	}})
	return parts, err
}

func (l *Logs) trimPartition(ctx context.Context, part string, before carillon.Time) error {
	from, err := time.Parse("log_20060102", part)
	isDay := err == nil
	// No run prints before it is due, so a day whose end is after before still has pieces to keep.
	over := !isDay || !from.Add(wholeDay).After(before.Std())
	if isDay && over {
		if settled, err := l.drop(ctx, part); settled || err != nil {
			return err
		}
	}
	if err := l.deleteOld(ctx, deleteOldOwn, part); err != nil || !over {
		return err
	}
	return l.deleteOld(ctx, deleteOldByRule, part)
}

// $1 partition
var dropLogDay = statement{"drop_log_day", `SELECT carillon.drop_log_day($1::text)`}

// drop drops a day. The day is not settled if something in it is kept, or if the role has no right to drop
// it. A day that others are reading stays as it is: all writers would wait behind the drop, and there will be
// another trim.
func (l *Logs) drop(ctx context.Context, part string) (settled bool, err error) {
	err = l.store.beside(ctx, call{&dropLogDay, [][]byte{textParam(part)}, func(r *row) error {
		settled = r.bool()
		return nil
	}})
	switch code(err) {
	case lockNotAvailable, undefinedTable: // another node may have dropped it just now
		return true, nil
	case notAllowed:
		return false, nil
	}
	return settled, err
}

// Error codes of PostgreSQL that are no failures here.
const (
	lockNotAvailable = "55P03"
	deadlock         = "40P01"
	undefinedTable   = "42P01"
	duplicateTable   = "42P07"
	notAllowed       = "42501"
)

// Some of the rows of a partition whose own time is over. By log_keep.
const deleteOldOwn = `
WITH old AS (DELETE FROM carillon.%[1]s WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM carillon.%[1]s WHERE keep > 0 AND written + keep
    < (SELECT at FROM carillon.log_horizon WHERE one)
  LIMIT 5000 FOR UPDATE SKIP LOCKED)) RETURNING 1)
SELECT count(*) FROM old`

// bySummary lets the planner use log_written, which works only in a bitmap scan.
var bySummary = statement{"by_summary", `SELECT set_config('enable_bitmapscan', 'on', true)`}

// Some of the rows of a partition that the server's rule does not keep. By log_written.
const deleteOldByRule = `
WITH old AS (DELETE FROM carillon.%[1]s WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM carillon.%[1]s WHERE keep = 0 AND written
    < (SELECT before FROM carillon.log_horizon WHERE one)
  LIMIT 5000 FOR UPDATE SKIP LOCKED)) RETURNING 1)
SELECT count(*) FROM old`

// deleteOld deletes in small steps, so that other sessions never wait long. The statement has no name: a
// named one would be prepared for every day that ever was.
func (l *Logs) deleteOld(ctx context.Context, sql, part string) error {
	s := statement{"", fmt.Sprintf(sql, pgx.Identifier{part}.Sanitize())}
	for {
		var deleted int64
		err := l.store.beside(ctx, call{statement: &bySummary}, call{&s, nil, func(r *row) error {
			deleted = r.int()
			return nil
		}})
		if code(err) == undefinedTable {
			return nil // another node has dropped it meanwhile
		}
		if err != nil || deleted == 0 {
			return err
		}
	}
}
