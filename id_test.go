package carillon_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/porttest"
)

func TestIDsRoundTripAsTextAndKeepTheirOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(porttest.Seed(t)), 1))
	var before carillon.RunID
	for i := range 20_000 {
		id := carillon.RunID{
			Job: carillon.JobID(random.Int64N(math.MaxInt64) + 1),
			Due: carillon.Time(random.Int64N(1<<50-1) + 1),
		}
		if i%3 == 0 && i > 0 {
			id.Job = before.Job // order by due within a job
		}
		job, err := carillon.ParseJobID(id.Job.String())
		if err != nil || job != id.Job {
			t.Fatalf("%d is %s is %d, %v", id.Job, id.Job, job, err)
		}
		run, err := carillon.ParseRunID(id.String())
		if err != nil || run != id {
			t.Fatalf("%v is %s is %v, %v", [2]int64{int64(id.Job), int64(id.Due)}, id, run, err)
		}
		less := before.Job < id.Job || before.Job == id.Job && before.Due < id.Due
		if before.Job != 0 && less != (before.String() < id.String()) {
			t.Fatalf("%s and %s are in another order than their numbers", before, id)
		}
		before = id
	}
}

func TestAnIDHasOneText(t *testing.T) {
	job := carillon.JobID(math.MaxInt64).String()
	run := carillon.RunID{Job: math.MaxInt64, Due: 1<<50 - 1}.String()
	for _, s := range []string{
		"", "job_", "job", job[4:], strings.ToUpper(job), " " + job, job + " ", job + "\n", job + "0",
		job[:len(job)-1], "Job_" + job[4:],
		"job_0000000000000", "job_8000000000000", "job_g000000000000", "job_zzzzzzzzzzzzz",
		"job_000000000000i", "job_000000000000l",
		"job_000000000000o", "job_000000000000u", "job_00000000000-1", "job_0000000000é0",
		"job_\x00000000000001", run,
	} {
		if id, err := carillon.ParseJobID(s); !errors.Is(err, carillon.ErrInvalid) {
			t.Errorf("%q is read as %d, %v", s, id, err)
		}
	}
	zero := "run_" + strings.Repeat("0", 12) + "1" + strings.Repeat("0", 10)
	for _, s := range []string{
		"", "run_", job, run[:len(run)-1], run + "0", strings.ToUpper(run), zero, // no due time
		"run_" + strings.Repeat("0", 13) + strings.Repeat("1", 10), // no job
		"run_g" + run[5:], "run_8" + run[5:], strings.Replace(run, "run_", "job_", 1),
		run[:10] + "_" + run[11:],
	} {
		if id, err := carillon.ParseRunID(s); !errors.Is(err, carillon.ErrInvalid) {
			t.Errorf("%q is read as %v, %v", s, id, err)
		}
	}
}

func TestIDsInJSON(t *testing.T) {
	type both struct {
		Job carillon.JobID `json:"job"`
		Run carillon.RunID `json:"run,omitzero"`
	}
	given := both{Job: 1, Run: carillon.RunID{Job: 1, Due: 32}}
	written, err := json.Marshal(given)
	if want := `{"job":"job_0000000000001","run":"run_00000000000010000000010"}`; err != nil ||
		string(written) != want {
		t.Fatalf("%s, %v, want %s", written, err, want)
	}
	var read both
	if err := json.Unmarshal(written, &read); err != nil || read != given {
		t.Errorf("%+v, %v", read, err)
	}
	if written, _ := json.Marshal(both{Job: 1}); string(written) != `{"job":"job_0000000000001"}` {
		t.Errorf("an empty run id is written: %s", written)
	}
	for _, bad := range []string{`{"job":1}`, `{"job":"1"}`, `{"run":"run_1"}`, `{"run":7}`} {
		if err := json.Unmarshal([]byte(bad), &read); err == nil {
			t.Errorf("%s was read without an error", bad)
		}
	}
}

func TestAMillionIDsRiseAndAreUniqueWhateverTheClockDoes(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(porttest.Seed(t)), 1))
	ids := idgen.New(5, carillon.Never)
	now, last := epoch, carillon.JobID(0)
	for i := range 1_000_000 {
		switch random.IntN(2000) {
		case 0:
			now += carillon.Time(random.Int64N(100))
		case 1:
			now -= carillon.Time(random.Int64N(100_000)) // set back
		}
		id, err := ids.Next(now)
		if err != nil || id <= last {
			t.Fatalf("number %d at %s: %s after %s, %v", i, now, id, last, err)
		}
		last = id
	}
}

func TestIDsOfTwoNodesNeverMeet(t *testing.T) {
	seen := map[carillon.JobID]bool{}
	for _, node := range []int{0, 1, idgen.MaxNodes - 1} {
		ids := idgen.New(node, carillon.Never)
		for range 10_000 {
			id, err := ids.Next(epoch)
			if err != nil || seen[id] || id <= 0 {
				t.Fatalf("node %d: %s, %v, seen %v", node, id, err, seen[id])
			}
			seen[id] = true
		}
	}
}

func TestManyMayAskForIDsAtOnce(t *testing.T) {
	ids := idgen.New(1, carillon.Never)
	var mu sync.Mutex
	seen := map[carillon.JobID]bool{}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 5000 {
				id, err := ids.Next(epoch)
				mu.Lock()
				if err != nil || seen[id] {
					t.Errorf("%s twice, %v", id, err)
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

func TestNoIDIsMadeAfterTheLease(t *testing.T) {
	until := epoch + 1000
	ids := idgen.New(1, until)
	if _, err := ids.Next(until - 1); err != nil {
		t.Errorf("in the last millisecond: %v", err)
	}
	if id, err := ids.Next(until); err == nil {
		t.Errorf("%s at the end of the lease", id)
	}
	ids.Extend(until - 500) // an answer that came late
	if id, err := ids.Next(until); err == nil {
		t.Errorf("%s after a shorter lease", id)
	}
	ids.Extend(until + 1000)
	if _, err := ids.Next(until); err != nil {
		t.Errorf("extended: %v", err)
	}
	// Ids that borrow from later milliseconds stop at the end of the lease too.
	short := idgen.New(1, epoch+2)
	made := 0
	for ; made < 100_000; made++ {
		if _, err := short.Next(epoch); err != nil {
			break
		}
	}
	if made != 2*4096 {
		t.Errorf("%d ids in two milliseconds, want %d", made, 2*4096)
	}
}

func TestAClockThatWasWrongForAMomentDoesNotStopIDs(t *testing.T) {
	ids := idgen.New(1, epoch.Add(time.Hour))
	if id, err := ids.Next(epoch.Add(24 * time.Hour)); err == nil {
		t.Fatalf("%s a day after the lease", id)
	}
	id, err := ids.Next(epoch)
	if err != nil || id < idgen.First(epoch) || id >= idgen.First(epoch+1) {
		t.Errorf("back at %s: %s, %v", epoch, id, err)
	}
}

func TestShardsShareTheWork(t *testing.T) {
	ids := idgen.New(1, carillon.Never)
	var load [carillon.Shards]int
	for i := range 64_000 {
		id, _ := ids.Next(epoch + carillon.Time(i/7))
		load[id.Shard()]++ // out of range would panic
	}
	for shard, n := range load {
		if n < 500 || n > 1500 {
			t.Errorf("shard %d has %d of 64,000", shard, n)
		}
	}
}
