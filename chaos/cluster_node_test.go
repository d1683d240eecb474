package chaos

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/worker/protocol"
)

// every makes one job for every step of a period that begins soon, due one after the other.
func every(step, length time.Duration) (defs []carillon.Definition, begin carillon.Time) {
	begin = carillon.Now().Add(3 * time.Second)
	return everyFrom(begin, step, length), begin
}

// everyFrom makes one job for every step of a period.
func everyFrom(begin carillon.Time, step, length time.Duration) (defs []carillon.Definition) {
	for at := time.Duration(0); at < length; at += step {
		def := handledJob("default", Work{})
		def.Schedule.At = begin.Add(at)
		defs = append(defs, def)
	}
	return defs
}

// lateness is how late the first start of each run was.
func lateness(lines []check.Line) map[carillon.RunID]time.Duration {
	late := map[carillon.RunID]time.Duration{}
	for _, l := range lines {
		if _, known := late[l.Run]; l.Kind == check.KindStart && !known {
			late[l.Run] = l.At.Sub(l.Run.Due)
		}
	}
	return late
}

// overtaken says that a run was more than a second late because no node took care of it: other runs, due a
// second later, had started well before it. If the machine itself stood still for a second, all runs are late
// and none is overtaken.
func overtaken(id carillon.RunID, late map[carillon.RunID]time.Duration) bool {
	began := id.Due.Add(late[id])
	for other := range late {
		if other.Due.Sub(id.Due) >= time.Second &&
			began.Sub(other.Due.Add(late[other])) > 200*time.Millisecond {
			return true
		}
	}
	return false
}

func TestAKilledNodesShardsAreOnTimeAgainWithinTenSeconds(t *testing.T) {
	t.Parallel()
	onOne(t, func(t *testing.T, e *engine) {
		c := newCluster(t, e.database(t), 2*time.Minute)
		c.start("node-1", "node-2", "node-3")
		c.handlers("worker-1", "default")
		c.handlers("worker-2", "default")
		c.members(carillon.MemberWorker, 2)
		defs, begin := every(200*time.Millisecond, 30*time.Second)
		var accepted []carillon.Job
		const batches = 30
		// Each batch goes through another node and has jobs of all times, so that every node always has some.
		for first := range batches {
			var batch []carillon.Definition
			for i := first; i < len(defs); i += batches {
				batch = append(batch, defs[i])
			}
			accepted = append(accepted, c.submit(batch...)...)
		}
		inTime := carillon.Now() < begin // on a machine too busy for that, lateness says nothing
		last(c.ctx, time.Until(begin.Add(5*time.Second).Std()))
		killed := carillon.Now()
		c.nodes["node-2"].Kill()

		runs := c.all()
		c.complete(accepted, runs)
		lines := c.truthful(runs)
		worst, back, excused := time.Duration(0), time.Duration(0), 0
		late := lateness(lines)
		for id := range late {
			after := id.Due.Sub(killed)
			worst = max(worst, late[id])
			if !overtaken(id, late) {
				continue
			}
			back = max(back, after)
			allowed := time.Second + c.machine.allowance(id.Due.Std(), id.Due.Add(late[id]).Std())
			within := 10*time.Second + c.machine.allowance(killed.Std(), id.Due.Std())
			if after <= within || late[id] <= allowed {
				continue
			}
			// A lost attempt had been claimed, so a node saw to the shard; when disks are slow, answers to
			// pulls come too late, and the run begins again only after its worker's lease.
			excused++
			if late[id] > allowed+time.Duration(runs[id].Losses)*protocol.LeaseTime {
				t.Errorf("started %s late, %s after a node was killed: %s", late[id], after, row(runs[id]))
			}
		}
		// A slow disk loses a few attempts, a machine that stands still loses more.
		if stood := c.machine.stood(killed.Std(), time.Now()); excused > len(late)/50 && stood < time.Second {
			t.Errorf("%d of %d runs were late because an attempt was lost", excused, len(late))
		}
		if back == 0 && inTime {
			t.Error("nothing was late: the node that was killed had nothing to see to")
		}
		t.Logf("on time again for what was due %s after the kill; the latest start was %s late", back, worst)
	})
}

func TestTwoOwnersOfAShardRunNothingTwice(t *testing.T) {
	t.Parallel()
	onOne(t, func(t *testing.T, e *engine) {
		c := newCluster(t, e.database(t), 2*time.Minute)
		c.start("node-1", "node-2")
		c.handlers("worker-1", "default")
		c.handlers("worker-2", "default")
		c.members(carillon.MemberWorker, 2)
		defs, begin := every(20*time.Millisecond, 24*time.Second)
		accepted := c.submit(defs...)
		recurring := handledJob("default", Work{For: carillon.Duration(50 * time.Millisecond)})
		recurring.Schedule.Every, recurring.Schedule.MaxRuns = carillon.Duration(time.Second), 15
		accepted = append(accepted, c.submit(repeat(recurring, 40)...)...)

		last(c.ctx, time.Until(begin.Add(2*time.Second).Std()))
		frozen := c.nodes["node-1"]
		if err := frozen.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		c.members(carillon.MemberNode, 1) // the other node has all shards
		last(c.ctx, time.Until(begin.Add(13*time.Second).Std()))
		// It still believes that half of the shards are its own.
		if err := frozen.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		c.members(carillon.MemberNode, 2)

		runs := c.all()
		c.complete(accepted, runs)
		lines := c.truthful(runs)
		for id, run := range runs {
			if run.State == carillon.StateSucceeded && run.Attempt-run.Losses != 1 {
				t.Errorf("%s has more attempts than losses explain: %s", id, row(run))
			}
		}
		t.Logf("%d runs; witnesses: %s", len(runs), check.Summary(lines))
	})
}

// A test cannot set the clock of a database, but on PostgreSQL it can replace the function that reads it.
func TestANodeWhoseClockDiffersFromTheStoresIsNotReady(t *testing.T) {
	t.Parallel()
	e := engines[0]
	store := e.database(t)
	c := newCluster(t, store, 2*time.Minute)
	c.start("node-1")
	if err := c.nodes["node-1"].Stop(); err != nil {
		t.Fatal(err)
	}
	if err := setStoreClock(c.ctx, store, 3*time.Second); err != nil {
		t.Fatal(err)
	}
	s := c.launch("node-1")
	var why string
	poll(t, c.ctx, "the node to say that its clock is wrong", func() bool {
		url, _, ok := s.where()
		if ok {
			why = unready(url)
		}
		return strings.Contains(why, "clock differs")
	})
	t.Log(why)
}
