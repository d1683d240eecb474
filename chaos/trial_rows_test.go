package chaos

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/carillon-run/carillon/chaos/check"
)

// surplusRows are the tables that have more rows than the trial's jobs and ended runs need: what ended must
// not stay where nodes look for what is due.
func (tr *trial) surplusRows(jobs, runs int) (list []string) {
	tr.t.Helper()
	edits := 0
	for _, c := range tr.commands {
		if c.Verb == check.VerbEdit {
			edits++
		}
	}
	for table, most := range map[string]int{
		"run": 0, "history": runs, "dead": runs, "result": runs, "checkpoint": runs, "run_payload": runs,
		"job": jobs, "definition": jobs + edits, "guard": jobs,
	} {
		n, err := tr.count(table)
		if err != nil {
			tr.t.Errorf("rows of %s: %v", table, err)
		} else if n > most {
			list = append(list, fmt.Sprintf("%d rows of %s, at most %d are needed", n, table, most))
		}
	}
	return list
}

// count is the number of rows of a table.
func (tr *trial) count(table string) (n int, err error) {
	if file, ok := strings.CutPrefix(tr.store, "sqlite:"); ok {
		return countSQLite(file, table)
	}
	address, err := url.Parse(tr.store)
	if err != nil {
		return 0, err
	}
	if tr.kind == "postgres" {
		return countPostgres(tr.ctx, address, "carillon."+table)
	}
	db, err := openMariaDB(address)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.QueryRowContext(tr.ctx, countRows+table).Scan(&n)
	return n, err
}

const countRows = "SELECT count(*) FROM "

func countSQLite(file, table string) (n int, err error) {
	conn, err := sqlite.OpenConn(file, sqlite.OpenReadOnly)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	err = sqlitex.Execute(conn, countRows+table, &sqlitex.ExecOptions{
		ResultFunc: func(row *sqlite.Stmt) error {
			n = row.ColumnInt(0)
			return nil
		},
	})
	return n, err
}

func countPostgres(ctx context.Context, address *url.URL, table string) (n int, err error) {
	conn, err := pgx.Connect(ctx, address.String())
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, countRows+table).Scan(&n)
	return n, err
}
