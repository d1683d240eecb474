package sqlite

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/carillon-run/carillon"
)

func count(t *testing.T, store *Store, table string) (n int64) {
	t.Helper()
	stmt, _, err := store.writer.conn.PrepareTransient(`SELECT count(*) FROM ` + table)
	if err != nil {
		t.Fatal(err)
	}
	defer stmt.Finalize()
	if _, err := stmt.Step(); err != nil {
		t.Fatal(err)
	}
	return stmt.ColumnInt64(0)
}

// Rows that no query shows any more must be gone too, or the file grows for ever.
func TestWhatIsForgottenLeavesNothingBehind(t *testing.T) {
	store := openAt(t, filepath.Join(t.TempDir(), "carillon.db"))
	commit := func(c carillon.Change) {
		t.Helper()
		if lost, err := store.Commit(context.Background(), []carillon.Change{c}); len(lost) > 0 ||
			err != nil {
			t.Fatal(lost, err)
		}
	}
	job := carillon.Job{ID: 1, Namespace: "default", Definition: carillon.Definition{Queue: "default", Priority: 5}}
	job.Target.Handler, job.Timeout, job.Schedule.At = &carillon.Handler{}, 0, now
	job.Labels = map[string]string{"team": "a", "env": "prod"}
	c := carillon.Submit(&job, now)
	commit(c)
	edited, run := job, c.Runs[0]
	edited.Rev, edited.Version, edited.Labels = 1, 2, map[string]string{"team": "b"}
	run.Rev = 1
	run.Output = &carillon.Output{Result: []byte("r"), Checkpoint: []byte("c"), Payload: []byte("p")}
	run.Output.Attempt = &carillon.Attempt{Run: run.ID, Number: 1}
	ended := run.End(carillon.StateFailed, "", now)
	commit(carillon.Change{
		Job: &edited, Runs: []carillon.Run{ended}, Guards: []carillon.Guard{job.OverlapGuard()},
	})
	if n := count(t, store, "job_label"); n != 1 {
		t.Errorf("%d labels after an edit", n)
	}
	if n, err := store.Forget(
		context.Background(), carillon.Retention{Runs: 1, DeadLetters: 1}, now+10, 10,
	); n != 2 ||
		err != nil {
		t.Fatal(n, err)
	}
	for _, table := range []string{
		"job", "definition", "job_label", "run", "history", "dead", "result", "checkpoint", "run_payload",
		"attempt", "guard",
	} {
		if n := count(t, store, table); n != 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
}
