package postgres_test

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/jackc/pgx/v5"
)

var (
	// A join filter with = means that only a part of a key was looked up.
	reads = regexp.MustCompile(
		`Seq Scan on (run|job|history|dead|dead_group|guard|definition|result|checkpoint|run_payload|attempt)|Hash|Merge Join|Bitmap|Join Filter: .* = .*`,
	)
	sorts = regexp.MustCompile(`(?m)(^|->) *Sort  `)
	// A read of another index would find the same rows among all others.
	goesBy = map[string]string{
		"lines_after": "using run_hold", "holds_after": "using run_hold",
		"dead_printed": "using dead_fingerprint", "dead_typed": "using dead_type",
		"group_samples": "using dead_fingerprint", "missing_prints": "using dead_missing",
	}
)

// A plan is made while a table is empty, and kept while the table grows; there may be no ANALYZE in between.
// So the plan must be the right one whatever the server assumes about the table. If the last VACUUM saw no
// live row, but could not remove dead ones because a long transaction might read them, the server assumes
// that the table stays empty however much it grows.
func TestNoPlanReadsAWholeTable(t *testing.T) {
	for name, last := range map[string]string{
		"never vacuumed": `SELECT 1`,
		"vacuumed while no row was alive": `UPDATE pg_class SET reltuples = 0, relpages = 1000
WHERE relnamespace = 'carillon'::regnamespace AND relkind IN ('r', 'i')`,
	} {
		t.Run(name, func(t *testing.T) {
			url := database(t)
			open(t, url, postgres.Config{})
			ctx := context.Background()
			conn, err := pgx.Connect(ctx, url)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(ctx)
			settings := strings.ReplaceAll(postgres.Settings, "$1::boolean", "false")
			for _, sql := range []string{last, settings} {
				if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range postgres.Statements() {
				plan := explain(t, conn, s)
				if index := goesBy[s.Name]; !strings.Contains(plan, index) {
					t.Errorf("%s does not go by %s:\n%s", s.Name, index, plan)
				}
				if found := reads.FindString(plan); found != "" {
					t.Errorf("%s: %s\n%s", s.Name, found, plan)
				}
				if !s.Sorts && sorts.MatchString(plan) {
					t.Errorf("%s sorts:\n%s", s.Name, plan)
				}
			}
		})
	}
}

// explain returns the plan that the server keeps for a statement, whatever its parameters are.
func explain(t *testing.T, conn *pgx.Conn, s postgres.Statement) string {
	t.Helper()
	values := map[int]string{}
	for _, p := range regexp.MustCompile(`\$(\d+)(::bigint\b(\[\])?)?`).FindAllStringSubmatch(s.SQL, -1) {
		n, _ := strconv.Atoi(p[1])
		if values[n] = cmp.Or(values[n], "NULL"); p[2] == "::bigint" {
			values[n] = "1" // with NULL the server would leave out all days of history
		}
	}
	var params []string
	for n := range len(values) {
		params = append(params, values[n+1])
	}
	if _, err := conn.Exec(
		context.Background(), fmt.Sprintf("PREPARE %s AS %s", s.Name, s.SQL), pgx.QueryExecModeSimpleProtocol,
	); err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	ask := fmt.Sprintf("EXPLAIN EXECUTE %s(%s)", s.Name, strings.Join(params, ", "))
	rows, err := conn.Query(context.Background(), ask, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	return strings.Join(lines, "\n")
}
