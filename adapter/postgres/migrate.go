package postgres

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"time"

	"github.com/carillon-run/carillon/internal/sqlcommon"
	"github.com/jackc/pgx/v5"
)

//go:embed migration/*.sql
var migrations embed.FS

// Migrations returns all migrations that this program knows, in order.
func Migrations() []sqlcommon.Migration { return sqlcommon.Migrations(migrations) }

// Script returns all migrations as SQL, for people who apply them by hand. The script records each migration,
// so that this program does not apply it again.
func Script() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s;\n", createSchema)
	for _, m := range Migrations() {
		fmt.Fprintf(
			&b,
			"\n-- %s\nBEGIN;\n%s\nINSERT INTO carillon.migration (version, name) VALUES (%d, "+
				"'%s');\nCOMMIT;\n",
			m.Name, m.SQL, m.Version, m.Name,
		)
	}
	return b.String()
}

// migrationLock is held while a migration is applied: ten nodes may start at once.
const migrationLock = 0x636172696c6c6f6e // "carillon"

const (
	schemaExists  = `SELECT to_regclass('carillon.migration') IS NOT NULL`
	schemaVersion = `SELECT coalesce(max(version), 0) FROM carillon.migration`
	createSchema  = `CREATE SCHEMA IF NOT EXISTS carillon;
CREATE TABLE IF NOT EXISTS carillon.migration (version integer PRIMARY KEY, name text NOT NULL,
  applied timestamptz NOT NULL DEFAULT now())`
	lockMigrations  = `SELECT pg_advisory_xact_lock($1)`
	recordMigration = `INSERT INTO carillon.migration (version, name) VALUES ($1, $2)`
)

// migrate brings the schema to the version of this program. It refuses a schema that a newer program has
// migrated: writing to it would be guessing. It needs no right to change the schema if there is nothing to
// change.
func (s *Store) migrate(ctx context.Context, keep bool) error {
	all := Migrations()
	newest := all[len(all)-1].Version
	pooled, err := s.writers.Acquire(ctx)
	if err != nil {
		return err
	}
	defer pooled.Release()
	applied, err := appliedVersion(ctx, pooled.Conn())
	switch {
	case err != nil:
		return err
	case applied > newest:
		return fmt.Errorf("the database has schema version %d, this program knows up to %d: use the "+
			"program that wrote it, or a newer one",
			applied, newest)
	case applied < newest && keep:
		return fmt.Errorf(
			"the database has schema version %d, this program needs %d: migrate it", applied, newest,
		)
	}
	for _, m := range all {
		if m.Version > applied {
			if err := apply(ctx, pooled.Conn(), m); err != nil {
				return fmt.Errorf("migrate to %s: %w", m.Name, err)
			}
		}
	}
	return nil
}

func appliedVersion(ctx context.Context, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
},
) (version int, err error) {
	var exists bool
	if err := q.QueryRow(ctx, schemaExists, pgx.QueryExecModeExec).Scan(&exists); err != nil || !exists {
		return 0, err
	}
	err = q.QueryRow(ctx, schemaVersion, pgx.QueryExecModeExec).Scan(&version)
	return version, err
}

// seesOthers is for a transaction that waits for a lock: it then sees what the holder wrote before it
// released the lock, whatever the server's default is.
var seesOthers = pgx.TxOptions{IsoLevel: pgx.ReadCommitted}

// apply tries again and again while another session holds a table that must be changed, a dump for example.
// It waits for the lock only a short time in each try, because all other sessions that want the table wait
// behind it.
func apply(ctx context.Context, conn *pgx.Conn, m sqlcommon.Migration) error {
	for {
		err := applyOnce(ctx, conn, m)
		switch code(err) {
		case lockNotAvailable, deadlock:
		default:
			return err
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return err
		}
	}
}

// lockPause is long compared with patience, so that other sessions make progress.
const lockPause = time.Second

func applyOnce(ctx context.Context, conn *pgx.Conn, m sqlcommon.Migration) error {
	return pgx.BeginTxFunc(ctx, conn, seesOthers, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockMigrations, pgx.QueryExecModeExec, int64(migrationLock)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, createSchema, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		// Another node may have been quicker; what it applied must not be applied again.
		if applied, err := appliedVersion(ctx, tx); err != nil || applied >= m.Version {
			return err
		}
		if _, err := tx.Exec(ctx, patience, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, m.SQL, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, recordMigration, pgx.QueryExecModeExec, m.Version, m.Name)
		return err
	})
}
