package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/carillon-run/carillon"
)

// mail is a run of one lane. Job 1 is of another node's shard, all others are of this node's.
func mail(wake int) carillon.Run { return inQueue("mail", wake) }

func inQueue(queue string, wake int) carillon.Run {
	return carillon.Run{
		ID: carillon.RunID{Job: 64, Due: carillon.Time(wake)}, Queue: queue, Wake: carillon.Time(wake),
		State: carillon.StateWaiting,
	}
}

func foreign(wake int) carillon.Run {
	run := mail(wake)
	run.ID.Job = 1
	return run
}

func between(from, to int) (runs []carillon.Run) {
	for wake := from; wake < to; wake++ {
		runs = append(runs, mail(wake))
	}
	return runs
}

func freshBacklog() *backlog {
	return newBacklog(func(shard int) bool { return shard != carillon.JobID(1).Shard() })
}

func wakes(runs []carillon.Run) (list []int) {
	for i := range runs {
		list = append(list, int(runs[i].Wake))
	}
	return list
}

var mailLane = func() laneKey { run := mail(0); return laneKey{Lane: run.Lane()} }()

func TestALiveLaneAdmitsAllRuns(t *testing.T) {
	b := freshBacklog()
	if got := wakes(b.admit(between(1, 4))); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("admitted %v", got)
	}
	b.overflow(between(1, 4), nil)
	if lanes := b.paged(); len(lanes) > 0 || b.overflowed.Taken() {
		t.Errorf("paged: %v", lanes)
	}
}

func TestAnOverflowingLaneAdmitsOnlyWhatComesBefore(t *testing.T) {
	b := freshBacklog()
	b.overflow(between(0, 10), []int{7, 5, 9})
	if !b.overflowed.Taken() {
		t.Error("the loader is not told")
	}
	offered := append(between(3, 8), inQueue("other", 9))
	if got := wakes(b.admit(offered)); !slices.Equal(got, []int{3, 4, 9}) {
		t.Errorf("admitted %v, want those before 5, and the other lane's", got)
	}
	if first, paged := b.first(mailLane); !paged || first.Wake != 5 {
		t.Errorf("paged %t from %+v", paged, first)
	}
	b.overflow(between(8, 9), []int{0}) // later than the tail
	if b.overflowed.Taken() {
		t.Error("the loader is told of a lane that was paged already")
	}
	b.overflow(between(2, 3), []int{0})
	if first, _ := b.first(mailLane); first.Wake != 2 {
		t.Errorf("the tail begins at %d, want 2", first.Wake)
	}
	at := func(wake int) carillon.WakePos { run := mail(wake); return run.WakePos() }
	if len(b.pagedBefore(at(1))) != 0 || len(b.pagedBefore(at(2))) != 1 || len(b.pagedBefore(at(3))) != 1 {
		t.Error("a reader passes over a lane from its tail on")
	}
}

func TestATailThatIsReadToItsEndMakesTheLaneLive(t *testing.T) {
	b := freshBacklog()
	b.overflow(between(5, 6), []int{0})
	tail, size := b.resume(mailLane)
	if tail.from.Wake != 5 || size != smallPage {
		t.Errorf("read %d from %d", size, tail.from.Wake)
	}
	if got := wakes(b.admit(between(9, 10))); !slices.Equal(got, []int{9}) {
		t.Errorf("while the page is read, a new run is not admitted: %v", got)
	}
	if b.resumed(mailLane, tail, between(5, 8), size) || len(b.paged()) > 0 || len(b.lanes) > 0 {
		t.Errorf("the lane is still paged: %+v", b.lanes)
	}
}

func TestATailIsReadPageByPage(t *testing.T) {
	b := freshBacklog()
	b.overflow(between(0, 1), []int{0})
	at := 0
	var sizes []int
	for range 9 { // memory has room for all of it
		tail, size := b.resume(mailLane)
		if int(tail.from.Wake) != at {
			t.Fatalf("reads from %d, want %d", tail.from.Wake, at)
		}
		sizes = append(sizes, size)
		if !b.resumed(mailLane, tail, between(at, at+size), size) {
			t.Fatal("there is more, and there is room")
		}
		at += size - 1 // the last run of a page is the first of the next
	}
	if want := []int{100, 200, 600, 1800, 5400, 10_000, 10_000, 10_000, 10_000}; !slices.Equal(sizes, want) {
		t.Errorf("pages of %v, want %v", sizes, want)
	}
}

func TestAPageFollowsHowManyRunsFittedTheLastTime(t *testing.T) {
	b := freshBacklog()
	b.overflow(between(0, 1), []int{0})
	read := func(at, fits int) (size int) {
		tail, size := b.resume(mailLane)
		page := between(at, at+size)
		if fits < size {
			b.overflow(page, []int{fits})
		}
		if more := b.resumed(mailLane, tail, page, size); more != (fits >= size) {
			t.Errorf("more: %t, though %d of %d fitted", more, fits, size)
		}
		return size
	}
	sizes := []int{read(0, 1000), read(99, 1000), read(298, 400), read(698, 5000), read(1397, 20)}
	if want := []int{100, 200, 600, 700, 175}; !slices.Equal(sizes, want) {
		t.Errorf("pages of %v, want %v", sizes, want)
	}
	if first, paged := b.first(mailLane); !paged || first.Wake != 1417 {
		t.Errorf("paged %t from %+v", paged, first)
	}
}

func TestAPageThatCouldNotBeReadIsReadAgain(t *testing.T) {
	b := freshBacklog()
	b.overflow(between(5, 6), []int{0})
	tail, _ := b.resume(mailLane)
	b.overflow(between(7, 8), []int{0}) // of a run that was committed meanwhile
	b.unread(mailLane, tail)
	if first, paged := b.first(mailLane); !paged || first.Wake != 5 {
		t.Errorf("paged %t from %+v", paged, first)
	}
}

func TestATailKnowsThatItHasRunsOfOtherShards(t *testing.T) {
	for name, add := range map[string]func(*backlog){
		"that had no room":     func(b *backlog) { b.overflow([]carillon.Run{foreign(4)}, []int{0}) },
		"later than the first": func(b *backlog) { b.overflow([]carillon.Run{foreign(7)}, []int{0}) },
		"that were left out":   func(b *backlog) { b.admit([]carillon.Run{foreign(8)}) },
	} {
		t.Run(name, func(t *testing.T) {
			b := freshBacklog()
			b.overflow(between(5, 6), []int{0})
			add(b)
			tail, size := b.resume(mailLane)
			if !tail.foreign {
				t.Fatal("it does not")
			}
			b.resumed(mailLane, tail, between(4, 4+size), size)
			if tail, _ = b.resume(mailLane); !tail.foreign {
				t.Error("it has forgotten that after a page")
			}
		})
	}
}

// TestMemoryIsAWindowOverTheStore plays a lane with a random history: runs come, are taken from a memory with
// little room, and are read from the store. Each is taken once and in order, and most are read once.
func TestMemoryIsAWindowOverTheStore(t *testing.T) {
	for seed := range uint64(15) {
		random := rand.New(rand.NewPCG(seed, 0))
		const room, total = 300, 20_000
		b := freshBacklog()
		var store, memory []carillon.Run // waiting runs, in order
		come, taken, read := 0, 0, 0
		offer := func(runs []carillon.Run) {
			runs = b.admit(runs)
			var refused []int
			for i := range runs {
				switch last := len(memory) - 1; {
				case last >= 0 && !memory[last].WakePos().Less(runs[i].WakePos()): // there already
				case len(memory) < room:
					memory = append(memory, runs[i])
				default:
					refused = append(refused, i)
				}
			}
			b.overflow(runs, refused)
		}
		for taken < total {
			switch n := 1 + random.IntN(400); random.IntN(4) {
			case 0, 1:
				runs := between(come, min(come+n, total))
				come += len(runs)
				store = append(store, runs...)
				offer(runs)
			case 2:
				n = min(n, len(memory))
				for _, run := range memory[:n] {
					if int(run.Wake) != taken {
						t.Fatalf("seed %d: run %d is taken, want %d", seed, run.Wake, taken)
					}
					taken++
				}
				memory, store = memory[n:], store[n:]
			case 3:
				for more := len(b.paged()) > 0 && len(memory) < room; more; {
					tail, size := b.resume(mailLane)
					from := slices.IndexFunc(store, func(r carillon.Run) bool {
						return !r.WakePos().Less(tail.from)
					})
					if from < 0 {
						from = len(store)
					}
					page := store[from:min(from+size, len(store))]
					read += len(page)
					offer(page)
					more = b.resumed(mailLane, tail, page, size)
				}
			}
		}
		if read > 2*total {
			t.Errorf("seed %d: %d runs were read of %d", seed, read, total)
		}
	}
}

func shared(share, wake int) carillon.Run {
	run := mail(wake)
	run.Share = fmt.Sprint("share", share)
	return run
}

func TestVeryManySharesThatOverflowArePagedTogether(t *testing.T) {
	b := freshBacklog()
	for i := range maxPagedShares {
		b.overflow([]carillon.Run{shared(i, 10+i)}, []int{0})
	}
	if n := len(b.paged()); n != maxPagedShares {
		t.Fatalf("%d lanes are paged, want %d", n, maxPagedShares)
	}
	if got := wakes(b.admit([]carillon.Run{shared(-1, 1000)})); len(got) != 1 {
		t.Error("a share that did not overflow is not admitted")
	}
	b.overflow([]carillon.Run{shared(1000, 5)}, []int{0})
	together := laneKey{mailLane.Lane, true}
	if got := b.paged(); !slices.Equal(got, []laneKey{together}) || len(b.shares) > 0 {
		t.Fatalf("paged are %v", got)
	}
	if first, _ := b.first(together); first == nil || first.Wake != 5 {
		t.Errorf("the first run without room is %v", first)
	}
	runs := []carillon.Run{shared(3, 4), shared(-1, 6), mail(7)}
	if got := wakes(b.admit(runs)); !slices.Equal(got, []int{4, 7}) {
		t.Errorf("admitted %v: want what comes before, and what has no share", got)
	}
	if lanes := b.pagedBefore(carillon.WakePos{Wake: 100}); len(lanes) > 0 {
		t.Errorf("a store cannot pass over %v", lanes)
	}
	tail, size := b.resume(together)
	b.overflow([]carillon.Run{shared(2000, 8)}, []int{0}) // a part of the page does not fit
	if b.resumed(together, tail, []carillon.Run{shared(1, 6), shared(2000, 8)}, size) {
		t.Error("all of the page fitted")
	}
	if first, _ := b.first(together); first == nil || first.Wake != 8 {
		t.Errorf("after a page the first run without room is %v", first)
	}
	tail, size = b.resume(together)
	b.resumed(together, tail, nil, size)
	if len(b.lanes) > 0 {
		t.Errorf("entries are left: %v", b.lanes)
	}
}
