package postgres

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-run/carillon/porttest/server"
)

// Pieces are read in the order of a key, a few at a time, whatever the server assumes about a table without
// statistics.
func TestLogsAreReadByTheirKey(t *testing.T) {
	pg, ctx := server.Postgres(t, "autovacuum=off"), context.Background()
	store, err := Open(ctx, pg.URL, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	conn, err := pgx.Connect(ctx, pg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	const days = `SELECT carillon.add_log_day(n * 86400000::bigint) FROM generate_series(1, 3) n`
	for _, sql := range []string{
		days, strings.ReplaceAll(settings.sql, "$1::boolean", "false"),
		strings.ReplaceAll(inOrder.sql, "true", "false"),
	} {
		if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	bad := regexp.MustCompile(`Seq Scan|Bitmap|(?m)(^|->) *Sort  `)
	const first = "'default', 1, 1, 1, 1, 1, 1, 1"
	for s, params := range map[*statement]string{
		&readLog:     first,
		&readWaiting: "NULL, 1, 1, ''", &readRefused: "NULL, 1, 1, 'default'",
		&readAllRefused: "NULL, 1, 1, ''",
	} {
		if _, err := conn.Exec(
			ctx, "PREPARE "+s.name+" AS "+s.sql, pgx.QueryExecModeSimpleProtocol,
		); err != nil {
			t.Fatal(err)
		}
		rows, err := conn.Query(
			ctx, "EXPLAIN EXECUTE "+s.name+"("+params+")", pgx.QueryExecModeSimpleProtocol,
		)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		if found := bad.FindString(plan); found != "" || !strings.Contains(plan, "Index Scan") {
			t.Errorf("%s: %s\n%s", s.name, found, plan)
		}
	}
}
