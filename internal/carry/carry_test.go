package carry_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/internal/carry"
)

// other is another node, with its own queue.
type other struct {
	queue *mem.Queue
	asked atomic.Int32
	open  atomic.Int32 // questions that are not answered
	names atomic.Int32 // in the longest question
	away  atomic.Bool
}

func namesIn(want carillon.Demand) (n int) {
	for _, w := range want.Wants {
		n += len(w.Namespaces) + len(w.Queues) + len(w.Kinds) + len(w.Types) + len(w.Labels)
	}
	return n
}

func (o *other) Fetch(ctx context.Context, want carillon.Demand) ([]carillon.Run, error) {
	o.asked.Add(1)
	o.open.Add(1)
	defer o.open.Add(-1)
	if names := namesIn(want); names > int(o.names.Load()) {
		o.names.Store(int32(names))
	}
	if o.away.Load() {
		return nil, errors.New("connection refused")
	}
	return carry.Give(ctx, o.queue, want, func([]carillon.RunID) {})
}

// with fetches from another node in a bubble.
func with(t *testing.T, test func(t *testing.T, here *carry.Queue, there *other)) {
	synctest.Test(t, func(t *testing.T) {
		there := &other{queue: mem.NewQueue(mem.QueueConfig{})}
		here := carry.New(mem.NewQueue(mem.QueueConfig{}), slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			here.Fetch(ctx, "there", there)
		}()
		test(t, here, there)
		stop()
		<-ended
	})
}

func due(queue string) []carillon.Run {
	return []carillon.Run{{
		ID: carillon.RunID{Due: carillon.Now(), Job: 1}, Namespace: "default", Queue: queue,
	}}
}

func demand(queues ...string) carillon.Demand {
	return carillon.Demand{Wants: []carillon.Want{{Queues: queues}}, Max: 10}
}

// pull pulls once, in the background.
func pull(ctx context.Context, q *carry.Queue, want carillon.Demand) <-chan []carillon.Run {
	got := make(chan []carillon.Run, 1)
	go func() {
		runs, _ := q.Pull(ctx, want)
		got <- runs
	}()
	synctest.Wait()
	return got
}

func TestARunOfAnotherNodeComesAtOnceThoughThatNodeWasAskedForOthersBefore(t *testing.T) {
	with(t, func(t *testing.T, here *carry.Queue, there *other) {
		ctx, cancel := context.WithCancel(t.Context())
		commands := pull(ctx, here, demand("commands"))
		mails := pull(ctx, here, demand("mail"))
		begin := time.Now()
		if _, err := there.queue.Push(ctx, due("mail")); err != nil {
			t.Fatal(err)
		}
		if runs := <-mails; len(runs) != 1 || time.Since(begin) > 0 {
			t.Errorf("%d runs after %s", len(runs), time.Since(begin))
		}
		if _, err := there.queue.Push(ctx, due("commands")); err != nil {
			t.Fatal(err)
		}
		if runs := <-commands; len(runs) != 1 || time.Since(begin) > 0 {
			t.Errorf("%d runs after %s", len(runs), time.Since(begin))
		}
		cancel()
	})
}

func TestPullsThatWantTheSameAskAnotherNodeOnce(t *testing.T) {
	with(t, func(t *testing.T, here *carry.Queue, there *other) {
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 20 {
			want := demand("mail")
			want.Wants[0].Labels = map[string]string{"host": strconv.Itoa(i)} // no run asks for it
			pull(ctx, here, want)
		}
		if n := there.asked.Load(); n != 1 {
			t.Errorf("the other node was asked %d times", n)
		}
		cancel()
		synctest.Wait()
	})
}

// hosts lets a thousand workers wait that differ in a label for people, and one that has a GPU too.
func hosts(ctx context.Context, here *carry.Queue) (gpu <-chan []carillon.Run) {
	for i := range 1000 {
		want := demand("mail")
		want.Wants[0].Labels = map[string]string{"host": strconv.Itoa(i)}
		if i == 500 {
			want.Wants[0].Labels["gpu"] = "true"
			gpu = pull(ctx, here, want)
		} else {
			pull(ctx, here, want)
		}
	}
	return gpu
}

func dueWith(labels map[string]string) []carillon.Run {
	job := carillon.Job{}
	job.Type, job.Needs, job.Target.Handler = "mail.send", labels, &carillon.Handler{}
	runs := due("mail")
	runs[0].Needs, runs[0].ID.Job = job.Lane().Needs, carillon.JobID(2+len(labels))
	return runs
}

func TestARunThatNeedsALabelComesAtOnceToTheOneWorkerOfAThousandThatHasIt(t *testing.T) {
	with(t, func(t *testing.T, here *carry.Queue, there *other) {
		ctx, cancel := context.WithCancel(t.Context())
		gpu := hosts(ctx, here)
		if n := there.asked.Load(); n != 1 {
			t.Errorf("the other node was asked %d times", n)
		}
		begin := time.Now()
		if _, err := there.queue.Push(ctx, dueWith(map[string]string{"gpu": "true"})); err != nil {
			t.Fatal(err)
		}
		if runs := <-gpu; len(runs) != 1 || time.Since(begin) > 0 || there.queue.Len() > 0 {
			t.Errorf("%d runs after %s, %d are left", len(runs), time.Since(begin), there.queue.Len())
		}
		time.Sleep(9 * time.Second)
		// One for each two seconds, and two more: to learn of the label, and since the first run has come.
		if n := there.asked.Load(); n > 8 || there.open.Load() != 1 {
			t.Errorf("the other node was asked %d times, %d open", n, there.open.Load())
		}
		if n := there.names.Load(); n > 3 {
			t.Errorf("the longest question has %d names", n)
		}
		cancel()
		synctest.Wait()
	})
}

// The other node always has runs that need no label.
func TestARunThatNeedsALabelComesThoughThereAreOthersToCome(t *testing.T) {
	with(t, func(t *testing.T, here *carry.Queue, there *other) {
		ctx, cancel := context.WithCancel(t.Context())
		var plain []carillon.Run
		for i := range 1000 {
			run := due("mail")[0]
			run.ID.Job = carillon.JobID(100 + i)
			plain = append(plain, run)
		}
		all := append(plain, dueWith(map[string]string{"gpu": "true"})...)
		if _, err := there.queue.Push(ctx, all); err != nil {
			t.Fatal(err)
		}
		want := demand("mail")
		want.Wants[0].Labels = map[string]string{"gpu": "true"}
		for came := 0; ; {
			for _, run := range <-pull(ctx, here, want) {
				came++
				if run.Lane().Labels() != nil {
					if came > 900 {
						t.Errorf("it came after %d others", came-1)
					}
					cancel()
					synctest.Wait()
					return
				}
			}
			if came > 1000 {
				t.Fatal("it did not come")
			}
		}
	})
}

func TestARunThatNeedsALabelOfNoWorkerHereStaysWhereItIs(t *testing.T) {
	with(t, func(t *testing.T, here *carry.Queue, there *other) {
		ctx, cancel := context.WithCancel(t.Context())
		for _, needs := range []map[string]string{{"host": "none"}, {"gpu": "true", "host": "1"}} {
			if _, err := there.queue.Push(ctx, dueWith(needs)); err != nil {
				t.Fatal(err)
			}
		}
		hosts(ctx, here)
		plain := pull(ctx, here, demand("mail"))
		time.Sleep(5 * time.Second)
		if there.queue.Len() != 2 || here.Len() != 0 || there.asked.Load() > 10 {
			t.Errorf("%d are left, %d came, after %d questions",
				there.queue.Len(), here.Len(), there.asked.Load())
		}
		if _, err := there.queue.Push(ctx, due("mail")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case <-plain:
		default:
			if there.queue.Len() != 2 { // else one of the thousand got it
				t.Error("the run that needs no label did not come")
			}
		}
		cancel()
		synctest.Wait()
	})
}

// Runs that need more labels than a question can list cost longer questions, but are not late.
func TestRunsThatNeedManyDifferentLabelsCome(t *testing.T) {
	with(t, func(t *testing.T, here *carry.Queue, there *other) {
		ctx, cancel := context.WithCancel(t.Context())
		hosts(ctx, here)
		begin := time.Now()
		for i := range 300 {
			run := dueWith(map[string]string{"host": strconv.Itoa(i)})
			run[0].ID.Job = carillon.JobID(i + 1)
			if _, err := there.queue.Push(ctx, run); err != nil {
				t.Fatal(err)
			}
		}
		for there.queue.Len() > 0 && time.Since(begin) < 10*time.Second {
			time.Sleep(100 * time.Millisecond)
		}
		if there.queue.Len() > 0 || time.Since(begin) > time.Second {
			t.Errorf("%d are left after %s", there.queue.Len(), time.Since(begin))
		}
		time.Sleep(11 * time.Minute) // what was learned is forgotten
		there.names.Store(0)
		time.Sleep(4 * time.Second)
		if n := there.names.Load(); n != 1 {
			t.Errorf("the longest question then has %d names", n)
		}
		cancel()
		synctest.Wait()
	})
}

func TestManyPullsThatWantDifferentRunsAskAFewShortQuestions(t *testing.T) {
	with(t, func(t *testing.T, here *carry.Queue, there *other) {
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 60 {
			queues := make([]string, 1000)
			for k := range queues {
				queues[k] = fmt.Sprintf("q%d-%d", i, k)
			}
			pull(ctx, here, demand(queues...))
		}
		mails := pull(ctx, here, demand("mail"))
		if n := there.open.Load(); n != 8 {
			t.Errorf("%d questions are open", n)
		}
		if _, err := there.queue.Push(ctx, due("mail")); err != nil {
			t.Fatal(err)
		}
		if runs := <-mails; len(runs) != 1 {
			t.Errorf("%d runs", len(runs))
		}
		if n := there.names.Load(); n < 5000 || n > 10_000 { // the other node reads no more than a megabyte
			t.Errorf("the longest question has %d names", n)
		}
		cancel()
		synctest.Wait()
	})
}

func TestANodeThatDoesNotAnswerIsAskedOnceASecond(t *testing.T) {
	with(t, func(t *testing.T, here *carry.Queue, there *other) {
		there.away.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		pull(ctx, here, demand("mail"))
		time.Sleep(10*time.Second + time.Millisecond)
		if n := there.asked.Load(); n < 10 || n > 11 {
			t.Errorf("it was asked %d times in ten seconds", n)
		}
		there.away.Store(false)
		if _, err := there.queue.Push(ctx, due("mail")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if n := there.queue.Len(); n != 0 {
			t.Error("it has come back, and its run was not fetched")
		}
		cancel()
		synctest.Wait()
	})
}
