package postgres_test

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/porttest"
)

// are says that members are the given ones, whenever they joined.
func are(got []carillon.Member, want ...carillon.Member) bool {
	for i := range got {
		got[i].Joined, got[i].Beat = 0, 0
	}
	return reflect.DeepEqual(got, want)
}

func TestCoordinator(t *testing.T) {
	url := database(t)
	porttest.Coordinator(t, porttest.CoordinatorTest{
		Open: func(t *testing.T) carillon.Coordinator {
			store := open(t, url, postgres.Config{})
			execute(t, url, `DELETE FROM carillon.session`)
			return postgres.NewCoordinator(store)
		},
		Again: func(t *testing.T, _ carillon.Coordinator) carillon.Coordinator {
			return postgres.NewCoordinator(open(t, url, postgres.Config{}))
		},
		Age: func(t *testing.T, _ carillon.Coordinator, by time.Duration) {
			execute(t, url, fmt.Sprintf(`UPDATE carillon.session SET beat = beat - %d`, by.Milliseconds()))
		},
	})
}

// A node may look for old sessions while their beats, which are late, are being written.
func TestASessionThatBeatsJustNowIsNotEnded(t *testing.T) {
	url := database(t)
	coordinator, conn := postgres.NewCoordinator(open(t, url, postgres.Config{})), client(t, url)
	late, gone := carillon.Member{
		ID: "late", Kind: carillon.MemberWorker,
	}, carillon.Member{ID: "gone", Kind: carillon.MemberWorker}
	if err := coordinator.Join(t.Context(), []carillon.Member{late, gone}); err != nil {
		t.Fatal(err)
	}
	execute(t, url, `UPDATE carillon.session SET beat = beat - 60000`)
	beat := `BEGIN; SELECT carillon.beat('{late}', '{0}', '{""}', '{0}')`
	if _, err := conn.Exec(t.Context(), beat); err != nil {
		t.Fatal(err)
	}
	there := func() {
		t.Helper()
		members, _, err := coordinator.Members(t.Context(), carillon.MemberQuery{Expire: carillon.Never})
		if err != nil || !are(members, late) {
			t.Fatalf("%v %v", members, err)
		}
	}
	for _, end := range []string{"", "COMMIT"} {
		there()
		if _, err := conn.Exec(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	there()
}

func TestWhatIsHeldTakesHalfOfItsSize(t *testing.T) {
	url := database(t)
	coordinator := postgres.NewCoordinator(open(t, url, postgres.Config{}))
	if err := coordinator.Join(t.Context(), []carillon.Member{{ID: "a"}}); err != nil {
		t.Fatal(err)
	}
	ids, now := idgen.New(1, carillon.Never), carillon.Now()
	var holds []carillon.Held
	for i := range 1000 {
		due := now + carillon.Time(i)
		job, err := ids.Next(due)
		if err != nil {
			t.Fatal(err)
		}
		holds = append(holds, carillon.Held{
			Run: carillon.RunID{Job: job, Due: due}, Fence: int64(due+3)<<20 | 1,
		})
	}
	if said, err := coordinator.Beat(t.Context(), []carillon.Beat{{ID: "a", Holds: holds}}); err != nil ||
		said[0] != carillon.StandingProlonged {
		t.Fatal(said, err)
	}
	var size int
	if err := client(t, url).QueryRow(
		t.Context(), `SELECT octet_length(holds) FROM carillon.session`,
	).Scan(&size); err != nil ||
		size > 10_000 {
		t.Errorf("%d bytes for %d runs: %v", size, len(holds), err)
	}
}

func TestTheClockIsReadWhileAllReadsWait(t *testing.T) {
	url := database(t)
	store, conn := open(t, url, postgres.Config{Readers: 1}), client(t, url)
	if _, err := conn.Exec(t.Context(), `BEGIN; LOCK TABLE carillon.job`); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		if _, err := store.Jobs(context.Background(), []carillon.JobVersion{{Job: 1}}); err != nil {
			t.Error(err)
		}
	})
	untilBlocked(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a failing test would wait for ever
	defer cancel()
	if _, _, err := postgres.NewCoordinator(store).Members(
		ctx, carillon.MemberQuery{IDs: []string{"a"}},
	); err != nil {
		t.Error(err)
	}
	if _, err := conn.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	reading.Wait()
}
