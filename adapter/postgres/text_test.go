package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/internal/idgen"
)

func TestATextThatIsNoneDoesNotFailTheOthers(t *testing.T) {
	store := open(t, database(t), postgres.Config{})
	changes := submissions(t, idgen.New(1, carillon.Never), 2)
	changes[0].Runs[0] = changes[0].Runs[0].Claim("w", now).End(
		carillon.StateFailed, "exit 1: \xff\x00!", now,
	)
	changes[1].Job.Payload = []byte("\"\xff\\u0000\"") // JSON all the same
	if lost := commit(t, store, changes...); len(lost) > 0 {
		t.Fatal(lost)
	}
	found, err := store.Runs(context.Background(), []carillon.RunID{changes[0].Runs[0].ID}, false)
	if err != nil || len(found) != 1 || found[0].Reason != "exit 1: \uFFFD\uFFFD!" {
		t.Errorf("%+v: %v", found, err)
	}
	jobs, err := store.Jobs(context.Background(), []carillon.JobVersion{{Job: changes[1].Job.ID}})
	if err != nil || len(jobs) != 1 || string(jobs[0].Payload) != string(changes[1].Job.Payload) {
		t.Errorf("%+v: %v", jobs, err)
	}
}

func TestABatchOfTheLargestJobsIsCommitted(t *testing.T) {
	store := open(t, database(t), postgres.Config{})
	changes := submissions(t, idgen.New(1, carillon.Never), 140)
	for i := range changes {
		changes[i].Job.Payload = []byte(`"` + strings.Repeat("a", carillon.MaxPayload-2) + `"`)
	}
	if lost := commit(t, store, changes...); len(lost) > 0 {
		t.Fatal(lost)
	}
	found, err := store.Wakes(context.Background(), carillon.WakeQuery{Until: carillon.Never, Limit: 1000})
	if err != nil || len(found) != len(changes) {
		t.Errorf("%d: %v", len(found), err)
	}
}
