package sqlite

import (
	"embed"
	"fmt"
	"strings"

	"github.com/carillon-run/carillon/internal/sqlcommon"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

//go:embed migration/*.sql
var migrations embed.FS

// Migrations returns all steps that this program knows, in order.
func Migrations() []sqlcommon.Migration { return sqlcommon.Migrations(migrations) }

// Script returns all steps as SQL for people who apply them by hand. It records each step, so that the
// program does not apply it again.
func Script() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s;\n", migrationTable)
	for _, m := range Migrations() {
		fmt.Fprintf(&b,
			"\n-- %s\nBEGIN;\n%s\nINSERT INTO migration (version, name, applied) VALUES (%d, '%s', "+
				"unixepoch() * 1000);\nCOMMIT;\n",
			m.Name, m.SQL, m.Version, m.Name)
	}
	return b.String()
}

const migrationTable = `CREATE TABLE IF NOT EXISTS migration (version INTEGER PRIMARY KEY,
  name TEXT NOT NULL, applied INTEGER NOT NULL)`

// migrate brings the file to the version of this program: numbered files, forward only, one transaction each;
// in a new file one for all, because each waits for the disk. It refuses a file that a newer program has
// written: to write to it would be to guess.
func migrate(conn *sqlite.Conn) error {
	all := Migrations()
	if err := sqlitex.ExecuteTransient(conn, migrationTable, nil); err != nil {
		return fmt.Errorf("prepare migrations: %w", err)
	}
	applied, err := appliedVersion(conn)
	if err != nil {
		return err
	}
	if newest := all[len(all)-1].Version; applied > newest {
		return fmt.Errorf("the file has schema version %d, this program knows up to %d: use the program "+
			"that wrote it, or a newer one",
			applied, newest)
	}
	if applied == 0 {
		return apply(conn, all...)
	}
	for _, m := range all {
		if m.Version > applied {
			if err := apply(conn, m); err != nil {
				return err
			}
		}
	}
	return nil
}

func appliedVersion(conn *sqlite.Conn) (version int, err error) {
	err = sqlitex.ExecuteTransient(conn, `SELECT coalesce(max(version), 0) FROM migration`,
		&sqlitex.ExecOptions{
			ResultFunc: func(stmt *sqlite.Stmt) error { version = stmt.ColumnInt(0); return nil },
		})
	if err != nil {
		return 0, fmt.Errorf("read the schema version: %w", err)
	}
	return version, nil
}

// apply applies steps in one transaction.
func apply(conn *sqlite.Conn, steps ...sqlcommon.Migration) (err error) {
	end, err := sqlitex.ImmediateTransaction(conn)
	if err != nil {
		return err
	}
	defer end(&err)
	// Another process may have been quicker; a step that it applied must not be applied again.
	applied, err := appliedVersion(conn)
	if err != nil {
		return err
	}
	const record = `INSERT INTO migration (version, name, applied)
  VALUES (?, ?, CAST(unixepoch('subsec') * 1000 AS INTEGER))`
	for _, m := range steps {
		if m.Version <= applied {
			continue
		}
		err := sqlitex.ExecuteScript(conn, m.SQL, nil)
		if err == nil {
			err = sqlitex.ExecuteTransient(conn, record, &sqlitex.ExecOptions{Args: []any{m.Version, m.Name}})
		}
		if err != nil {
			return fmt.Errorf("migrate to %s: %w", m.Name, err)
		}
	}
	return nil
}
