package porttest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/carillon-run/carillon"
)

// queueTest is a queue whose calls must not fail.
type queueTest struct {
	testing.TB
	carillon.Queue
}

func (t queueTest) push(runs ...carillon.Run) (refused []int) {
	t.Helper()
	refused, err := t.Push(t.Context(), runs)
	if err != nil {
		t.Fatalf("push: %v", err)
	}
	return refused
}

// pull expects that there is a run.
func (t queueTest) pull(limit int, queues ...string) []carillon.Run {
	t.Helper()
	runs, err := t.Pull(patient(t), carillon.Demand{Wants: of(queues...), Max: limit})
	if err != nil {
		t.Fatalf("pull: %v", err)
	}
	return runs
}

// pullAll pulls one by one, so that the queue makes every choice anew.
func (t queueTest) pullAll(n int, queues ...string) (runs []carillon.Run) {
	t.Helper()
	for range n {
		runs = append(runs, t.pull(1, queues...)...)
	}
	return runs
}

// of asks for runs of some queues; none: of any.
func of(queues ...string) []carillon.Want { return []carillon.Want{{Queues: queues}} }

// in returns a sample run of a lane.
func in(queue string, priority int8, job int, wake carillon.Time) carillon.Run {
	r := sample(job, wake)
	r.Queue, r.Priority = queue, priority
	return r
}

// Queue checks what carillon.Queue promises. open returns an empty queue with room for maxPerLane runs per
// lane; 0: for as many as it likes.
func Queue(t *testing.T, open func(t *testing.T, maxPerLane int) carillon.Queue) {
	run := func(name string, room int, f func(queueTest)) {
		t.Run(name, func(t *testing.T) { f(queueTest{t, open(t, room)}) })
	}
	run("a run comes whole", 0, queueWhole)
	run("pull takes from the queues that were asked for", 0, queueNames)
	run("pull without queues takes from any", 0, queueAny)
	run("pull takes only runs that are wanted, past others that came first", 0, queueWants)
	run("a push serves the pull that wants its runs", 0, queueServesWanted)
	run("a run that needs labels goes to a pull that has them", 0, queueLabels)
	run("a pull without all labels gets copies of runs that need others", 0, queueUnknownLabels)
	run("no more than max come, and the rest comes next", 0, queueMax)
	run("runs of a lane come in the order they were pushed", 0, queueFIFO)
	run("higher priorities come first", 0, queuePriority)
	run("a higher priority comes first, however long others wait", 0, queueStrict)
	run("one place in ten goes to the run that has waited longest", 0, queueTenth)
	run("that is so for each worker that wants other runs", 0, queueTenthOfEach)
	run("random pulls take runs in this order", 0, queueModel)
	run("priority 0 does not starve under a flood of priority 9", 0, queueStarve)
	run("a share with one run does not wait behind the backlog of another", 0, queueShareGoesNext)
	run("queues, namespaces and shares take turns, shares by their weights", 0, queueTurns)
	run("runs of several types count for their share together", 0, queueShareOfTypes)
	run("a share that has one run at a time gets no more than its turns", 0, queueShareComesAndGoes)
	run("a share gets nothing for the time in which no worker took its runs", 0, queueShareUnserved)
	run("new shares do not keep an old one waiting for ever", 0, queueNewShares)
	run("a higher priority comes first, whatever its share has had", 0, queueSharePriority)
	run("a lane without room refuses, and another lane does not", 2, queueRoom)
	run("the same run twice comes once, with the higher rev", 0, queueTwice)
	run("a run that was pulled may be pushed again", 0, queueAgain)
	run("it says how many runs wait", 0, queueLen)
	run("pull that does not wait takes what there is", 0, queueNoWait)
	run("pull for spare runs takes them, and waits for a push", 0, queueSpare)
	run("pull for lone runs takes the first of each share that has few", 0, queueLone)
	run("runs of a share with other needs are not lone", 0, queueLoneNeeds)
	run("runs of a busy share are lone when it is freed", 0, queueLoneBusy)
	run("lone runs come by priority, and namespaces take turns", 0, queueLoneOrder)
	run("a lone run is found behind busy shares", 0, queueLoneBehindBusy)
	run("it says whether a share has runs", 0, queueHas)
	run("pull for lone runs waits for one", 0, queueLoneWaits)
	run("pull waits for a push", 0, queueWaits)
	run("every waiting pull is served by a push of enough", 0, queueServesAll)
	run("pull returns the error of its context, and takes nothing", 0, queueCanceled)
	run("many push and many pull, and each run comes exactly once", 0, queueConcurrent)
	run("pulls that give up lose nothing", 0, queueGiveUp)
}

func queueWhole(t queueTest) {
	want := sample(1, epoch)
	t.push(want)
	same(t, "run", t.pull(10), []carillon.Run{want})
}

func queueNames(t queueTest) {
	a, b, c := in("a", 5, 1, epoch), in("b", 5, 2, epoch), in("c", 9, 3, epoch)
	t.push(c, b, a)
	same(t, "of a", t.pull(10, "a"), []carillon.Run{a})
	same(t, "of a and b", t.pull(10, "a", "b"), []carillon.Run{b})
	same(t, "of c twice named", t.pull(10, "c", "c"), []carillon.Run{c})
}

func queueAny(t queueTest) {
	a, b := in("a", 5, 1, epoch), in("b", 5, 2, epoch+1)
	t.push(b, a)
	same(t, "of any", t.pullAll(2), []carillon.Run{a, b})
}

func queueMax(t queueTest) {
	for i := range 5 {
		t.push(sample(i+1, epoch+carillon.Time(i)))
	}
	seen := map[carillon.RunID]bool{}
	for len(seen) < 5 {
		runs := t.pull(2)
		if len(runs) > 2 {
			t.Fatalf("asked for 2, got %d", len(runs))
		}
		for _, r := range runs {
			seen[r.ID] = true
		}
	}
}

func queueFIFO(t queueTest) {
	want := []carillon.Run{sample(3, epoch), sample(1, epoch), sample(2, epoch), sample(4, epoch+5)}
	t.push(want[:2]...)
	t.push(want[2:]...)
	same(t, "order", idsOf(t.pullAll(4)), idsOf(want))
}

func queueRoom(t queueTest) {
	other, urgent := in("other", 5, 4, epoch), in("default", 9, 5, epoch)
	refused := t.push(sample(1, epoch), sample(2, epoch), sample(3, epoch), other, urgent)
	same(t, "refused", refused, []int{2})
	t.pullAll(4)
	same(t, "refused with room", t.push(sample(6, epoch)), []int(nil))
}

func queueTwice(t queueTest) {
	first := sample(1, epoch)
	lower, higher, last := first, first, sample(2, epoch)
	lower.Rev, higher.Rev, higher.Attempt = first.Rev-1, first.Rev+1, 9
	t.push(first, lower, first, higher, first)
	t.push(last)
	same(t, "once", t.pullAll(2), []carillon.Run{higher, last})
	moved := higher
	moved.Rev, moved.Queue = higher.Rev+1, "other"
	t.push(higher)
	t.push(moved)
	same(t, "in its new queue", t.pull(10, "other"), []carillon.Run{moved})
}

func queueAgain(t queueTest) {
	for range 3 {
		t.push(sample(1, epoch))
		same(t, "run", t.pull(1), []carillon.Run{sample(1, epoch)})
	}
}

func queueLen(t queueTest) {
	same(t, "empty", t.Len(), 0)
	t.push(in("a", 1, 1, epoch), in("b", 5, 2, epoch), in("b", 9, 3, epoch), in("b", 9, 3, epoch))
	same(t, "three runs, one of them twice", t.Len(), 3)
	same(t, "those of one queue", t.Len(of("b")...), 2)
	same(t, "those of two queues", t.Len(append(of("a"), of("b")...)...), 3)
	same(t, "those of any queue", t.Len(carillon.Want{}), 3)
	same(t, "those of a queue without runs", t.Len(of("c")...), 0)
	typed := carillon.Want{Queues: []string{"a"}, Types: []string{"x"}}
	same(t, "those of a queue and a type", t.Len(typed), 0)
	t.pull(2)
	same(t, "after two were taken", t.Len(), 1)
}

func queueNoWait(t queueTest) {
	now := func(limit int, queues ...string) []carillon.RunID {
		runs, err := t.Pull(t.Context(), carillon.Demand{Wants: of(queues...), Max: limit, NoWait: true})
		if err != nil {
			t.Fatalf("pull: %v", err)
		}
		return idsOf(runs)
	}
	same(t, "of an empty queue", now(10), []carillon.RunID{})
	low, high := in("a", 1, 1, epoch), in("a", 9, 2, epoch)
	t.push(low, high)
	same(t, "of another queue", now(10, "b"), []carillon.RunID{})
	same(t, "in the order of a pull that waits", now(1), []carillon.RunID{high.ID})
	same(t, "the rest", now(10, "a", "b"), []carillon.RunID{low.ID})
}

// queueSpare cannot see when a pull begins to wait: only the adapter's own test can say that a pull without
// Spare goes first.
func queueSpare(t queueTest) {
	want := carillon.Demand{Wants: of("a"), Max: 1, Spare: true}
	t.push(in("a", 5, 1, epoch), in("b", 5, 2, epoch))
	runs, err := t.Pull(patient(t), want)
	same(t, "no other pull waits", idsOf(runs), []carillon.RunID{sample(1, 0).ID})
	same(t, "error", err, nil)
	got := make(chan []carillon.Run)
	go func() {
		runs, err := t.Pull(patient(t), want)
		if err != nil {
			t.Errorf("pull: %v", err)
		}
		got <- runs
	}()
	t.push(in("a", 5, 3, epoch))
	same(t, "after a push", idsOf(<-got), []carillon.RunID{sample(3, 0).ID})
}

func queueWaits(t queueTest) {
	got := make(chan []carillon.Run)
	go func() {
		runs, err := t.Pull(patient(t), carillon.Demand{Wants: of("a"), Max: 10})
		if err != nil {
			t.Errorf("pull: %v", err)
		}
		got <- runs
	}()
	t.push(in("b", 5, 1, epoch))
	t.push(in("a", 5, 2, epoch))
	same(t, "run", idsOf(<-got), []carillon.RunID{sample(2, 0).ID})
}

func queueServesAll(t queueTest) {
	const pulls = 20
	var pulling sync.WaitGroup
	runs := make([]carillon.Run, pulls)
	for i := range runs {
		runs[i] = sample(i+1, epoch)
		pulling.Go(func() {
			if _, err := t.Pull(patient(t), carillon.Demand{Max: 1}); err != nil {
				t.Errorf("pull: %v", err)
			}
		})
	}
	t.push(runs...)
	pulling.Wait()
}

func queueCanceled(t queueTest) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	t.push(sample(1, epoch))
	if _, err := t.Pull(ended, carillon.Demand{Max: 1}); !errors.Is(err, context.Canceled) {
		t.Fatalf("pull with an ended context: %v", err)
	}
	same(t, "still there", len(t.pull(1)), 1)
	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan error)
	go func() {
		_, err := t.Pull(ctx, carillon.Demand{Max: 1})
		returned <- err
	}()
	cancel()
	if err := <-returned; !errors.Is(err, context.Canceled) {
		t.Fatalf("pull while its context ends: %v", err)
	}
}

// delivery counts the runs that pullers get, until all are there.
type delivery struct {
	mu   sync.Mutex
	got  map[carillon.RunID]int
	want int
	all  context.CancelFunc // ends the pulls
}

func (d *delivery) add(runs []carillon.Run) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range runs {
		d.got[r.ID]++
	}
	if len(d.got) == d.want {
		d.all()
	}
}

func (d *delivery) check(t testing.TB) {
	t.Helper()
	same(t, "different runs", len(d.got), d.want)
	for id, n := range d.got {
		if n != 1 {
			t.Fatalf("%s came %d times", id, n)
		}
	}
}

func queueConcurrent(t queueTest) {
	const pushers, pullers, each = 8, 8, 400
	ctx, cancel := context.WithCancel(patient(t))
	d := delivery{got: map[carillon.RunID]int{}, want: pushers * each, all: cancel}
	var all sync.WaitGroup
	for p := range pushers {
		all.Go(func() {
			for i := 0; i < each; i += 4 {
				job := 1 + p*each + i
				_, err := t.Push(t.Context(), []carillon.Run{
					in("a", 1, job, epoch), in("b", 2, job+1, epoch), in("c", 3, job+2, epoch),
					in("c", 4, job+3, epoch),
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	asked := [][]string{nil, {"a"}, {"b", "c"}, {"a", "c"}}
	for p := range pullers {
		all.Go(func() {
			for {
				runs, err := t.Pull(ctx, carillon.Demand{Wants: of(asked[p%len(asked)]...), Max: 1 + p})
				if d.add(runs); err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	d.check(t)
}

// queueGiveUp lets pulls end at any moment, also at the moment of their delivery.
func queueGiveUp(t queueTest) {
	const runs = 500
	ctx, cancel := context.WithCancel(patient(t))
	d := delivery{got: map[carillon.RunID]int{}, want: runs, all: cancel}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				short, stop := context.WithCancel(ctx)
				go stop()
				got, err := t.Pull(short, carillon.Demand{Max: 3})
				if err == nil || errors.Is(err, context.Canceled) {
					d.add(got)
				} else {
					t.Errorf("pull: %v", err)
				}
			}
		})
	}
	for i := range runs {
		t.push(sample(i+1, epoch))
	}
	all.Wait()
	d.check(t)
}
