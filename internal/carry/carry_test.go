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
		n += len(w.Namespaces) + len(w.Queues) + len(w.Kinds) + len(w.Types)
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
