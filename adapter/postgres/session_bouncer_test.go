package postgres_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/porttest"
	"github.com/carillon-run/carillon/porttest/server"
)

func TestWhatIsBesideTheStoreWorksBehindAPooler(t *testing.T) {
	direct := database(t)
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	behind := inDatabase(t, server.PgBouncer(t, sharedServer(t)).URL, u.Path[1:])
	t.Run("sessions", func(t *testing.T) {
		porttest.Coordinator(t, porttest.CoordinatorTest{
			Open: func(t *testing.T) carillon.Coordinator {
				store := open(t, behind, postgres.Config{})
				execute(t, direct, `DELETE FROM carillon.session`)
				return postgres.NewCoordinator(store)
			},
			Age: func(t *testing.T, _ carillon.Coordinator, by time.Duration) {
				execute(
					t, direct, fmt.Sprintf(`UPDATE carillon.session SET beat = beat - %d`, by.Milliseconds()),
				)
			},
		})
	})
	t.Run("logs", func(t *testing.T) {
		porttest.Logs(t, func(t *testing.T) carillon.LogStore {
			store := open(t, behind, postgres.Config{})
			execute(t, direct, emptyLogs)
			return postgres.NewLogs(store)
		})
	})
	t.Run("intake", func(t *testing.T) {
		intake := postgres.NewIntake(open(t, behind, postgres.Config{}))
		id, err := submit(t, client(t, direct), plainJob)
		if err != nil {
			t.Fatal(err)
		}
		if left := leftIn(t, intake); len(left) != 1 || left[0] != id {
			t.Fatal(left)
		}
		refusal := carillon.Submission{ID: id, Namespace: "default", Reason: "x"}
		if err := intake.Acknowledge(t.Context(), []carillon.JobID{1}, []carillon.Submission{
			refusal,
		}); err != nil {
			t.Fatal(err)
		}
		refused, err := intake.Submissions(t.Context(), carillon.SubmissionQuery{Refused: true})
		if err != nil || len(refused) != 1 || refused[0].Reason != "x" {
			t.Fatal(refused, err)
		}
	})
	t.Run("events, if they are listened for at the server itself", func(t *testing.T) {
		bus := runBus(t, postgres.NewBus(open(t, behind, postgres.Config{}), postgres.BusConfig{}))
		other := runBus(
			t, postgres.NewBus(open(t, behind, postgres.Config{}), postgres.BusConfig{URL: direct}),
		)
		events := hear(t, other, carillon.EventFilter{})
		publish(t, bus, jobEvent(1))
		events.expect(jobEvent(1))
	})
}
