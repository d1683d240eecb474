package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// daysAhead is for how many days history has a partition ahead of time. A record of a day without a partition
// goes to history_rest: there it is just as safe, and only costs more to remove.
const daysAhead = 3

const wholeDay = 24 * time.Hour

const (
	listDays = `SELECT c.relname, now() FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'carillon.history'::regclass`

	// patience bounds how long other sessions that want a table wait behind the session that changes it.
	patience = `SET LOCAL lock_timeout = '100ms'`

	createDay = `CREATE TABLE carillon.%s (LIKE carillon.history);
ALTER TABLE carillon.history ATTACH PARTITION carillon.%[1]s FOR VALUES FROM (%d) TO (%d)`

	isEmpty = `SELECT NOT EXISTS (SELECT FROM carillon.%s)`

	// dropDay checks again that the partition is empty, now that the lock keeps out new rows.
	dropDay = `LOCK TABLE carillon.%[1]s IN ACCESS EXCLUSIVE MODE;
DO $$ BEGIN IF NOT EXISTS (SELECT FROM carillon.%[1]s) THEN DROP TABLE carillon.%[1]s; END IF; END $$`
)

// addDays creates the partitions of today and of the next days.
func (s *Store) addDays(ctx context.Context) error {
	known, today, err := s.listDays(ctx)
	if err != nil {
		return err
	}
	for i := range daysAhead + 1 {
		from := today.Add(time.Duration(i) * wholeDay)
		if name := dayName(from); !slices.Contains(known, name) {
			sql := fmt.Sprintf(createDay, name, firstPlace(from), firstPlace(from.Add(wholeDay)))
			if err := s.changeDays(ctx, sql); err != nil {
				return fmt.Errorf("add %s: %w", name, err)
			}
		}
	}
	return nil
}

// tendDays adds the days to come and drops the days whose records were all forgotten.
func (s *Store) tendDays(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.addDays(ctx); err != nil {
		return err
	}
	known, today, err := s.listDays(ctx)
	if err != nil {
		return err
	}
	for _, name := range known {
		from, err := time.Parse(dayLayout, name)
		if err != nil || !from.Add(wholeDay).Before(today) { // not a day, or not yet over for long enough
			continue
		}
		var empty bool
		if err := s.readers.QueryRow(
			ctx, fmt.Sprintf(isEmpty, name), pgx.QueryExecModeExec,
		).Scan(&empty); err != nil &&
			!refused(err) {
			return err
		}
		if !empty {
			continue
		}
		if err := s.changeDays(ctx, fmt.Sprintf(dropDay, name)); err != nil {
			return fmt.Errorf("drop %s: %w", name, err)
		}
	}
	return nil
}

const dayLayout = "history_20060102"

func dayName(t time.Time) string    { return t.Format(dayLayout) }
func firstPlace(t time.Time) int64  { return t.UnixMilli() << placeBits }
func startOf(t time.Time) time.Time { return t.UTC().Truncate(wholeDay) }
func refused(err error) bool        { return code(err) != "" && !strings.HasPrefix(code(err), "57") }

// listDays returns the existing partitions, and the present day by the server's clock.
func (s *Store) listDays(ctx context.Context) (names []string, today time.Time, err error) {
	rows, err := s.readers.Query(ctx, listDays, pgx.QueryExecModeExec)
	if err != nil {
		return nil, today, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name, &today); err != nil {
			return nil, today, err
		}
		names = append(names, name)
	}
	return names, startOf(today), rows.Err()
}

// changeDays changes the partitions, one node at a time. It is no error if the server refuses: there is a
// next time, and until then history_rest takes the records. A refusal is logged once, unless it passes by
// itself: another session holds a lock, or another node was quicker.
func (s *Store) changeDays(ctx context.Context, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := pgx.BeginTxFunc(ctx, s.writers, seesOthers, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, patience, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, lockMigrations, pgx.QueryExecModeExec, int64(migrationLock)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		return err
	})
	switch code(err) {
	case lockNotAvailable, duplicateTable, undefinedTable:
		return nil
	}
	if refused(err) {
		s.refusal.Do(func() {
			s.logger.Warn(
				"the days of history cannot be changed, history_rest takes what has none", "error", err,
			)
		})
		return nil
	}
	return err
}
