package sqlite

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
	"zombiezen.com/go/sqlite"
)

// A query that falls back to a scan or a sort is still correct but a thousand times slower, so plans are
// tested.
func TestPlans(t *testing.T) {
	store, err := Open(filepath.Join(t.TempDir(), "carillon.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for query, want := range map[string][]string{
		atDue.all:  {"SEARCH run USING PRIMARY KEY ((due,job)>(?,?) AND due<?)"},
		atDue.held: {"SEARCH run USING PRIMARY KEY ((due,job)>(?,?) AND due<?)"},
		atDue.cut:  {"SEARCH run USING PRIMARY KEY ((due,job)>(?,?) AND due<?)"},
		moved.all:  {"SEARCH run USING INDEX run_wake ((wake,due,job)>(?,?,?) AND wake<?)"},
		moved.held: {"SEARCH run USING INDEX run_wake ((wake,due,job)>(?,?,?) AND wake<?)"},
		moved.cut:  {"SEARCH run USING COVERING INDEX run_wake ((wake,due,job)>(?,?,?) AND wake<?)"},
		lineAfter:  {"SEARCH run USING INDEX run_hold (namespace=? AND hold=? AND (due,job)>(?,?) AND due<?)"},
		nextHold:   {"SEARCH run USING COVERING INDEX run_hold ((namespace,hold,due)>(?,?,?))"},
		guardsFrom: {"SEARCH guard USING PRIMARY KEY (namespace=? AND key>?)"},
		jobsBefore: {"SEARCH j USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		jobsLabeled: {
			"SEARCH l USING PRIMARY KEY (namespace=? AND key=? AND value=? AND job>? AND job<?)",
			"SEARCH j USING INTEGER PRIMARY KEY (rowid=?)",
		},
		jobsFrom: {"SEARCH j USING INTEGER PRIMARY KEY (rowid>?)"},
		jobOlder: {
			"SEARCH j USING INTEGER PRIMARY KEY (rowid=?)",
			"SEARCH d USING INDEX sqlite_autoindex_definition_1 (job=? AND version=?)",
		},
		runByKey:      {"SEARCH run USING PRIMARY KEY (due=? AND job=?)"},
		historyByKey:  {"SEARCH history USING INDEX history_job (job=? AND due=?)"},
		deadByKey:     {"SEARCH dead USING INDEX dead_run (job=? AND due=?)"},
		firstOfJob:    {"SEARCH run USING PRIMARY KEY (due=? AND job=?)"},
		extraOfJob:    {"SEARCH run USING INDEX run_job (job=?)"},
		latestBegun:   {"SEARCH history USING INDEX history_job (job=?)"},
		historyByRule: {"SEARCH history USING INTEGER PRIMARY KEY (rowid>?)"},
		historyByOwn:  {"SEARCH history USING INDEX history_expires (expires>? AND expires<?)"},
		deadByRule:    {"SEARCH dead USING INDEX dead_ended (ended<?)"},
		deadByOwn:     {"SEARCH dead USING INDEX dead_expires (expires>? AND expires<?)"},
		lastHistory:   {"SEARCH history"},
		expiredGuards: {"SEARCH guard USING INDEX guard_expires (expires>? AND expires<?)"},

		allUnfinished: {"SEARCH run USING PRIMARY KEY ((due,job)>(?,?) AND due<?)"},
		allEnded:      {"SEARCH history USING INTEGER PRIMARY KEY (rowid<?)"},
		fmt.Sprintf(allBad, carillon.StateCanceled): {"SEARCH history USING INDEX history_bad (state=? AND rowid<?)"},
		jobUnfinished: {
			"MERGE (UNION ALL)", "LEFT",
			"SEARCH run USING PRIMARY KEY (due=? AND job=?)", "SCALAR SUBQUERY 1",
			"SEARCH job USING INTEGER PRIMARY KEY (rowid=?)",
			"RIGHT", "SEARCH run USING INDEX run_job (job=? AND due<?)",
		},
		jobEnded:    {"SEARCH history USING INDEX history_job (job=? AND due<?)"},
		allDead:     {"SEARCH dead USING INTEGER PRIMARY KEY (rowid<?)"},
		deadPrinted: {"SEARCH dead USING INDEX dead_fingerprint (namespace=? AND fingerprint=? AND rowid<?)"},
		deadTyped:   {"SEARCH dead USING INDEX dead_type (namespace=? AND type=? AND rowid<?)"},
		deadGroups:  {"SEARCH dead_group USING PRIMARY KEY (namespace=?)", sorts},
		groupTypes:  {"SEARCH dead_group USING PRIMARY KEY (namespace=? AND fingerprint=?)"},
		groupSample: {"SEARCH dead USING INDEX dead_fingerprint (namespace=? AND fingerprint=?)"},
		hasLabel:    {"SEARCH job_label USING PRIMARY KEY (namespace=? AND key=? AND value=? AND job=?)"},
		jobDead:     {"SEARCH dead USING INDEX dead_run (job=? AND due>? AND due<?)", sorts},

		updateRun:    {"SEARCH run USING PRIMARY KEY (due=? AND job=?)"},
		deleteRun:    {"SEARCH run USING PRIMARY KEY (due=? AND job=?)"},
		updateGuard:  {"SEARCH guard USING PRIMARY KEY (namespace=? AND key=?)"},
		deleteDead:   {"SEARCH dead USING INDEX dead_run (job=? AND due=?)"},
		deleteLabel:  {"SEARCH job_label USING PRIMARY KEY (namespace=? AND key=? AND value=? AND job=?)"},
		deleteResult: {},
		deleteJob:    {},
	} {
		plan := explain(t, store.writer.conn, query)
		if len(want) > 0 && strings.Join(plan, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s\n  got  %q\n  want %q", query, plan, want)
		}
		for _, step := range plan {
			if strings.HasPrefix(step, "SCAN") || step == sorts && query != jobDead && query != deadGroups {
				t.Errorf("%s\n  %s", query, step)
			}
		}
	}
}

// sorts is the step of a plan that sorts because no index has the order.
const sorts = "USE TEMP B-TREE FOR ORDER BY"

func explain(t *testing.T, conn *sqlite.Conn, query string) (plan []string) {
	t.Helper()
	stmt, _, err := conn.PrepareTransient(`EXPLAIN QUERY PLAN ` + query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer stmt.Finalize()
	for {
		found, err := stmt.Step()
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		if !found {
			break
		}
		plan = append(plan, stmt.ColumnText(3))
	}
	return plan
}
