package mysql

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/carillon-run/carillon/internal/sqlcommon"
)

//go:embed migration/*.sql
var migrations embed.FS

// Migrations returns all steps that this program knows, in order.
func Migrations() []sqlcommon.Migration { return sqlcommon.Migrations(migrations) }

// Script returns all steps as SQL for people who apply them by hand. It records each step, so that the
// program does not apply it again.
func Script() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s;\n", createSchema)
	for _, m := range Migrations() {
		fmt.Fprintf(
			&b, "\n-- %s\n%s\n%s;\n", m.Name, m.SQL, appendSQL(nil, recordMigration, m.Version, m.Name),
		)
	}
	return b.String()
}

const (
	schemaExists = `SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()
  AND TABLE_NAME = 'migration'`
	schemaVersion = `SELECT coalesce(max(version), 0) FROM migration`
	createSchema  = `CREATE TABLE IF NOT EXISTS migration (version INT PRIMARY KEY,
  name VARBINARY(255) NOT NULL, applied BIGINT NOT NULL) ENGINE=InnoDB`

	recordMigration = `INSERT INTO migration (version, name, applied) VALUES (?, ?, ` + clock + `)`
)

// migrate brings the schema to the version of this program. It refuses a schema that a newer program has
// migrated: to write to it would be to guess. If there is nothing to change, the account needs no right to
// change the schema.
func (s *Store) migrate(ctx context.Context, settings *mysql.Config) error {
	all := Migrations()
	newest, applied := all[len(all)-1].Version, 0
	err := s.use(ctx, func(l *conn) (err error) {
		applied, err = l.schemaVersion()
		return err
	})
	switch {
	case err != nil:
		return err
	case applied > newest:
		return fmt.Errorf("the database has schema version %d, this program knows up to %d: use the "+
			"program that wrote it, or a newer one",
			applied, newest)
	case applied == newest:
		return nil
	case s.keep:
		return fmt.Errorf(
			"the database has schema version %d, this program needs %d: migrate it", applied, newest,
		)
	}
	return s.apply(ctx, settings, all)
}

// apply has no time limit: it uses a connection without a read timeout. Only the wait for another node's
// migration has a limit.
func (s *Store) apply(ctx context.Context, settings *mysql.Config, all []sqlcommon.Migration) error {
	patient := settings.Clone()
	patient.ReadTimeout = 0
	connector, err := mysql.NewConnector(patient)
	if err != nil {
		return err
	}
	db := pool(connector, 1)
	defer db.Close()
	done := false
	err = s.connect(ctx, db, func(l *conn) (err error) {
		done, err = l.alone("migration", s.timeout, func() error { return l.migrate(all) })
		return err
	})
	if err == nil && !done {
		return errors.New("another node's migration takes too long")
	}
	return err
}

// migrate applies the steps that no node has applied yet. A crash in the middle of a step leaves its first
// statements done: MySQL cannot undo them. The step is then repeated from its beginning.
func (l *conn) migrate(all []sqlcommon.Migration) error {
	if err := l.exec([]byte(createSchema)); err != nil {
		return err
	}
	applied, err := l.schemaVersion()
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.Version <= applied {
			continue
		}
		err := l.exec([]byte(m.SQL))
		if err == nil {
			err = l.exec(appendSQL(nil, recordMigration, m.Version, m.Name))
		}
		if err != nil {
			return tried("migrate to "+m.Name, err)
		}
	}
	return nil
}

func (l *conn) schemaVersion() (version int, err error) {
	exists, err := l.has(schemaExists)
	if err != nil || !exists {
		return 0, err
	}
	err = l.query(func(r row) error { version = int(r.int(0)); return nil }, schemaVersion)
	return version, err
}

// Named locks of the server. All its databases share the names, and a lock ends with the connection.
const (
	takeLock = `SELECT GET_LOCK(CONCAT('carillon/', ?, '/', MD5(DATABASE())), ?)`
	freeLock = `DO RELEASE_LOCK(CONCAT('carillon/', ?, '/', MD5(DATABASE())))`
)

// alone runs a function, unless another node runs one with the same name.
func (s *Store) alone(ctx context.Context, what string, f func(l *conn) error) error {
	return s.use(ctx, func(l *conn) error {
		_, err := l.alone(what, 0, func() error { return f(l) })
		return err
	})
}

// alone runs a function while no other node runs one with the same name. done is false if another node took
// too long.
func (l *conn) alone(what string, patience time.Duration, f func() error) (done bool, err error) {
	err = l.query(func(r row) error { done = r.bool(0); return nil }, takeLock, what, int(patience.Seconds()))
	if err != nil || !done {
		return false, tried("wait for the other nodes' "+what, err)
	}
	err = f()
	if freed := l.exec(appendSQL(nil, freeLock, what)); err == nil {
		err = freed
	}
	return true, err
}
