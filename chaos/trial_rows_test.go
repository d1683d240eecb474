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

// surplusRows are rows that the trial's jobs and ended runs do not need: what ended must not stay where nodes
// look for what is due, and nothing must stay of a run that there is no record of.
func (tr *trial) surplusRows(jobs int) (list []string) {
	tr.t.Helper()
	edits := 0
	for _, c := range tr.commands {
		if c.Verb == check.VerbEdit {
			edits++
		}
	}
	const unrecorded = ` o WHERE NOT EXISTS (SELECT 1 FROM history h WHERE h.job = o.job AND h.due = o.due)
		AND NOT EXISTS (SELECT 1 FROM dead d WHERE d.job = o.job AND d.due = o.due)`
	for rows, most := range map[string]int{
		"run": 0, "definition": jobs + edits, "guard": jobs,
		"result" + unrecorded: 0, "checkpoint" + unrecorded: 0, "run_payload" + unrecorded: 0,
		"attempt" + unrecorded: 0,
		"(SELECT 1 FROM history GROUP BY job, due HAVING count(*) > 1) recorded_twice": 0,
	} {
		n, err := tr.count(rows)
		if err != nil {
			tr.t.Errorf("rows of %s: %v", rows, err)
		} else if n > most {
			list = append(list, fmt.Sprintf("%d rows of %s, at most %d are needed", n, rows, most))
		}
	}
	return list
}

// count is the number of rows, given what follows FROM.
func (tr *trial) count(rows string) (n int, err error) {
	if file, ok := strings.CutPrefix(tr.store, "sqlite:"); ok {
		return countSQLite(file, rows)
	}
	address, err := url.Parse(tr.store)
	if err != nil {
		return 0, err
	}
	if tr.kind == "postgres" {
		return countPostgres(tr.ctx, address, rows)
	}
	db, err := openMariaDB(address)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.QueryRowContext(tr.ctx, countRows+rows).Scan(&n)
	return n, err
}

const countRows = "SELECT count(*) FROM "

func countSQLite(file, rows string) (n int, err error) {
	conn, err := sqlite.OpenConn(file, sqlite.OpenReadOnly)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	err = sqlitex.Execute(conn, countRows+rows, &sqlitex.ExecOptions{
		ResultFunc: func(row *sqlite.Stmt) error {
			n = row.ColumnInt(0)
			return nil
		},
	})
	return n, err
}

func countPostgres(ctx context.Context, address *url.URL, rows string) (n int, err error) {
	conn, err := pgx.Connect(ctx, address.String())
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "SET search_path TO carillon"); err != nil {
		return 0, err
	}
	err = conn.QueryRow(ctx, countRows+rows).Scan(&n)
	return n, err
}
