package sqlite

import (
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

//go:embed migration/*.sql
var migrations embed.FS

// Migration is one step of the schema: numbered, forward only, one transaction.
type Migration struct {
	Version int64
	Name    string
	SQL     string
}

// Migrations are all steps that this program knows, first things first.
func Migrations() (all []Migration) {
	names, err := fs.Glob(migrations, "migration/*.sql") // sorted
	if err != nil {
		panic(err) // the pattern is wrong
	}
	for _, name := range names {
		script, err := migrations.ReadFile(name)
		if err != nil {
			panic(err) // it is built in
		}
		all = append(all, Migration{numberOf(name), strings.TrimPrefix(name, "migration/"), string(script)})
	}
	return all
}

// Script is all of it as SQL for people who apply it by hand: what is recorded there is not applied again.
func Script() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s;\n", migrationTable)
	for _, m := range Migrations() {
		fmt.Fprintf(&b, "\n-- %s\nBEGIN;\n%s\nINSERT INTO migration (version, name, applied) VALUES (%d, 'migration/%s', unixepoch() * 1000);\nCOMMIT;\n",
			m.Name, m.SQL, m.Version, m.Name)
	}
	return b.String()
}

const migrationTable = `CREATE TABLE IF NOT EXISTS migration (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied INTEGER NOT NULL)`

// migrate brings the file to the version of this program: numbered files, forward only, one transaction each. A file
// that a newer program has written is refused: to write to it would be to guess.
func migrate(conn *sqlite.Conn) error {
	names, err := fs.Glob(migrations, "migration/*.sql") // sorted
	if err != nil {
		return err
	}
	if err := sqlitex.ExecuteTransient(conn, migrationTable, nil); err != nil {
		return fmt.Errorf("prepare migrations: %w", err)
	}
	applied, err := appliedVersion(conn)
	if err != nil {
		return err
	}
	if newest := numberOf(names[len(names)-1]); applied > newest {
		return fmt.Errorf("the file has schema version %d, this program knows up to %d: use the program that wrote it, or a newer one",
			applied, newest)
	}
	for _, name := range names {
		if numberOf(name) > applied {
			if err := apply(conn, name); err != nil {
				return fmt.Errorf("migrate to %s: %w", name, err)
			}
		}
	}
	return nil
}

func appliedVersion(conn *sqlite.Conn) (version int64, err error) {
	err = sqlitex.ExecuteTransient(conn, `SELECT coalesce(max(version), 0) FROM migration`, &sqlitex.ExecOptions{
		ResultFunc: func(stmt *sqlite.Stmt) error { version = stmt.ColumnInt64(0); return nil },
	})
	if err != nil {
		return 0, fmt.Errorf("read the schema version: %w", err)
	}
	return version, nil
}

func apply(conn *sqlite.Conn, name string) (err error) {
	script, err := migrations.ReadFile(name)
	if err != nil {
		return err
	}
	end, err := sqlitex.ImmediateTransaction(conn)
	if err != nil {
		return err
	}
	defer end(&err)
	// Another process may have been quicker; what it applied must not be applied again.
	if applied, err := appliedVersion(conn); err != nil || applied >= numberOf(name) {
		return err
	}
	if err := sqlitex.ExecuteScript(conn, string(script), nil); err != nil {
		return err
	}
	const record = `INSERT INTO migration (version, name, applied) VALUES (?, ?, CAST(unixepoch('subsec') * 1000 AS INTEGER))`
	return sqlitex.ExecuteTransient(conn, record, &sqlitex.ExecOptions{Args: []any{numberOf(name), name}})
}

// numberOf reads the number that a migration's file name begins with.
func numberOf(name string) int64 {
	digits, _, _ := strings.Cut(strings.TrimPrefix(name, "migration/"), "_")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		panic("migration " + name + " has no number")
	}
	return n
}
