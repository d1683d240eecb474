package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/idgen"
)

const now carillon.Time = 1_800_000_000_000

func openAt(t *testing.T, path string) *Store {
	t.Helper()
	store, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// fill submits jobs of which every tenth is of type "rare".
func fill(t *testing.T, store *Store, jobs int) (rare []carillon.JobID) {
	t.Helper()
	ids := idgen.New(1, carillon.Never)
	var changes []carillon.Change
	for i := range jobs {
		job := carillon.Job{Namespace: "default", Definition: carillon.Definition{Queue: "default", Priority: 5}}
		job.ID, _ = ids.Next(now)
		job.Type, job.Target.Handler = "common", &carillon.Handler{}
		if i%10 == 0 {
			job.Type = "rare"
			rare = append([]carillon.JobID{job.ID}, rare...)
		}
		job.Schedule.At, job.Timeout = now, 0
		c := carillon.Submit(&job, now)
		if i%2 == 0 {
			c.Runs[0] = c.Runs[0].Claim("worker-"+job.Type, now).End(carillon.StateSucceeded, "", now)
		}
		changes = append(changes, c)
	}
	if lost, err := store.Commit(context.Background(), changes); len(lost) > 0 || err != nil {
		t.Fatal(lost, err)
	}
	return rare
}

func TestAWriterThatIsKeptOutSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "carillon.db")
	store, other := openAt(t, path), openAt(t, path)
	store.writer.conn.SetBusyTimeout(time.Millisecond)
	changes := []carillon.Change{
		{Guards: []carillon.Guard{{Namespace: "a", Key: "k", Value: []byte("v")}}},
	}
	if err := other.writer.begin.exec(); err != nil {
		t.Fatal(err)
	}
	if lost, err := store.Commit(context.Background(), changes); err == nil {
		t.Errorf("committed while another process writes: %v", lost)
	}
	if err := other.writer.undo(); err != nil {
		t.Fatal(err)
	}
	if lost, err := store.Commit(context.Background(), changes); err != nil || len(lost) > 0 {
		t.Errorf("after it: %v, %v", lost, err)
	}
}

func TestASearchGivesUpItsTurnAndGoesOnWhereItStood(t *testing.T) {
	store := openAt(t, filepath.Join(t.TempDir(), "carillon.db"))
	store.maxScan = 7
	want := fill(t, store, 100)
	t.Run("jobs", func(t *testing.T) {
		var got []carillon.JobID
		pages, q := 0, carillon.JobQuery{Type: "rare"}
		for {
			page, err := store.FindJobs(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, job := range page.Jobs {
				got = append(got, job.ID)
			}
			pages++
			if q.Before = page.Next; page.Next == 0 {
				break
			}
		}
		check(t, got, want, pages)
	})
	t.Run("runs", func(t *testing.T) {
		var got []carillon.JobID
		pages, q := 0, carillon.RunQuery{Worker: "worker-rare"}
		for {
			page, err := store.FindRuns(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, run := range page.Runs {
				got = append(got, run.ID.Job)
			}
			pages++
			if q.After = page.Next; page.Next == "" {
				break
			}
		}
		check(t, got, want, pages)
	})
}

func check(t *testing.T, got, want []carillon.JobID, pages int) {
	t.Helper()
	if len(got) != len(want) || pages != 15 { // 100 rows, 7 a page
		t.Fatalf("%d on %d pages, want %d", len(got), pages, len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestTheLogIsCutWhenItIsTooLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "carillon.db")
	store := openAt(t, path)
	store.maxLog = 1 << 20
	size := func() int64 {
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	ids := idgen.New(2, carillon.Never)
	longest := int64(0)
	for range 40 {
		job := carillon.Job{Namespace: "default", Definition: carillon.Definition{Queue: "default", Priority: 5}}
		job.ID, _ = ids.Next(now)
		job.Schedule.At, job.Timeout, job.Payload = now, 0, make([]byte, 100_000)
		if _, err := store.Commit(context.Background(), []carillon.Change{
			carillon.Submit(&job, now),
		}); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, size())
	}
	if longest < 1<<19 || longest > 1<<20+200_000 {
		t.Fatalf("the log got %d bytes long", longest)
	}
}

func TestAReadStopsAfterManyRunsOfAFullLane(t *testing.T) {
	store := openAt(t, filepath.Join(t.TempDir(), "carillon.db"))
	store.maxScan = 7
	fill(t, store, 200) // 100 of them are finished
	common := carillon.Lane{Namespace: "default", Queue: "default", Needs: "common", Priority: 5}
	rare := common
	rare.Needs = "rare"
	testStops(t, store, carillon.WakeQuery{
		Full: []carillon.Lane{common, rare}, Until: carillon.Never, Limit: 1000,
	})
	testStops(t, store, carillon.WakeQuery{Held: true, Until: carillon.Never, Limit: 1000})
}

// testStops expects a query to pass over 100 runs, 7 a page.
func testStops(t *testing.T, store *Store, q carillon.WakeQuery) {
	t.Helper()
	pages, passed := 0, map[carillon.RunID]bool{}
	for {
		page, err := store.Wakes(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		if !q.More(page) {
			break
		}
		if len(page) != 1 || passed[page[0].ID] {
			t.Fatalf("page %d has %d runs, want one that was not there before", pages, len(page))
		}
		passed[page[0].ID] = true
		q.After = page[0].WakePos()
	}
	if pages != 100/7+1 {
		t.Errorf("%d pages, want %d", pages, 100/7+1)
	}
}
