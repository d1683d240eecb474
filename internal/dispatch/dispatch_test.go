package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

func TestAnEndThatIsReportedAgainIsRecordedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		kind   carillon.OutcomeKind
		reason string
		state  carillon.State
	}{
		"a success":      {carillon.OutcomeSuccess, "", carillon.StateSucceeded},
		"a fatal end":    {carillon.OutcomeFatal, "no such mailbox", carillon.StateFailed},
		"a failure":      {carillon.OutcomeRetriable, "try later", carillon.StateWaiting},
		"handed back":    {carillon.OutcomeLost, "shutting down", carillon.StateWaiting},
		"it was stopped": {carillon.OutcomeStopped, "stopped by ann", carillon.StateCanceled},
	} {
		t.Run(name+", to the same node and to another", func(t *testing.T) {
			in(t, 2, func(h *house) {
				worker := h.register(h.nodes[0])
				job := h.submit(h.nodes[0], nil)
				task := h.one(h.nodes[0], worker)
				for i, n := range []*node{h.nodes[0], h.nodes[0], h.nodes[1]} {
					if got := h.report(
						n, worker, end(task, c.kind, c.reason),
					); got != protocol.ReceiptRecorded {
						t.Errorf("report %d: %s", i+1, got)
					}
				}
				run := h.run(job)
				if run.State != c.state || run.Attempt != 1 || run.Failures+run.Losses > 1 {
					t.Errorf("%+v", run)
				}
			})
		})
	}
}

func TestWhatAnAttemptThatLostItsRunReportsIsRefused(t *testing.T) {
	in(t, 1, func(h *house) {
		n := h.nodes[0]
		first := h.register(n)
		job := h.submit(n, nil)
		old := h.one(n, first)
		time.Sleep(2 * carillon.SessionTime) // without a beat: its worker is gone
		second := h.register(n)
		task := h.one(n, second)
		if task.Run.Attempt != 2 || task.Run.Fence() <= old.Run.Fence() {
			t.Fatalf("attempt %d", task.Run.Attempt)
		}
		for what, r := range map[string]protocol.Report{
			"a success":    end(old, carillon.OutcomeSuccess, ""),
			"a checkpoint": {Held: old.Held(), Checkpoint: []byte("old")},
			"output":       {Held: old.Held(), Lines: []carillon.Line{{Text: "old", Stream: "stdout"}}},
			"a beginning":  {Held: old.Held(), Begun: h.clock.Now()},
		} {
			if got := h.report(n, first, r); got != protocol.ReceiptRefused {
				t.Errorf("%s: %s", what, got)
			}
		}
		if got := h.report(
			n, second, end(task, carillon.OutcomeSuccess, ""),
		); got != protocol.ReceiptRecorded {
			t.Error(got)
		}
		lines, err := h.logs.Read(context.Background(), carillon.LogQuery{
			Namespace: "default", Run: task.Run.ID, AfterOffset: -1, Limit: 9,
		})
		if run := h.run(job); err != nil || len(lines) != 1 || run.State != carillon.StateSucceeded ||
			run.Crashes != 1 {
			t.Errorf("%+v, %d lines, %v", run, len(lines), err)
		}
		notice := carillon.Line{
			At: task.Run.Claimed, Stream: "carillon", Attempt: 2, Offset: -1,
			Text: fmt.Sprintf("--- attempt 2, on %s; attempt 1 ended: its worker %s died", second, first),
		}
		if len(lines) == 1 && lines[0] != notice {
			t.Errorf("the log begins with %+v, want %+v", lines[0], notice)
		}
	})
}

func TestARunWhosePullAnswerIsLostIsTakenBack(t *testing.T) {
	for where, within := range []time.Duration{6 * time.Second, 14 * time.Second} {
		name := []string{"by the node that gave it", "by its shard's owner, if the beats go to another"}[where]
		t.Run(name, func(t *testing.T) {
			in(t, 2, func(h *house) {
				worker := h.register(h.nodes[0])
				job := h.submit(h.nodes[0], nil)
				h.one(h.nodes[0], worker) // and the worker never gets the answer
				begin := time.Now()
				h.beat(h.nodes[where], worker, protocol.Handover)
				if run := h.run(job); run.State != carillon.StateClaimed || run.Losses != 0 {
					t.Errorf("after four seconds: %s, %d losses", run.State, run.Losses)
				}
				h.beat(h.nodes[where], worker, within-time.Since(begin))
				synctest.Wait()
				run := h.run(job)
				if run.State != carillon.StateWaiting || run.Losses != 1 || run.Crashes != 0 ||
					run.Failures != 0 {
					t.Errorf("%s, %d losses, %d crashes: %s", run.State, run.Losses, run.Crashes, run.Reason)
				}
			})
		})
	}
}

func TestARunOfTenMinutesIsNotDisturbed(t *testing.T) {
	in(t, 2, func(h *house) {
		worker := h.register(h.nodes[0])
		job := h.submit(h.nodes[0], nil)
		task := h.one(h.nodes[0], worker)
		for i := range 10 { // its worker dials the two nodes in turn
			if stop := h.beat(h.nodes[i%2], worker, time.Minute, task); len(stop) > 0 {
				t.Fatalf("told to stop: %+v", stop)
			}
		}
		if got := h.report(
			h.nodes[1], worker, end(task, carillon.OutcomeSuccess, ""),
		); got != protocol.ReceiptRecorded {
			t.Error(got)
		}
		if run := h.run(job); run.State != carillon.StateSucceeded || run.Attempt != 1 || run.Losses != 0 {
			t.Errorf("%+v", run)
		}
	})
}

func TestACancelReachesAWorkerOfAnotherNodeWithItsBeats(t *testing.T) {
	in(t, 2, func(h *house) {
		worker := h.register(h.nodes[0])
		job := h.submit(h.nodes[0], nil)
		task := h.one(h.nodes[0], worker)
		h.beat(h.nodes[0], worker, 3*time.Second, task)
		if _, err := h.nodes[1].ledger.CancelJob(context.Background(), "default", job, false); err != nil {
			t.Fatal(err)
		}
		stop := h.beat(h.nodes[0], worker, time.Second, task)
		if len(stop) == 0 || stop[0].Held != task.Held() || stop[0].Lost || stop[0].Reason == "" {
			t.Fatalf("%+v", stop)
		}
		if got := h.report(
			h.nodes[0], worker, end(task, carillon.OutcomeStopped, "stopped"),
		); got != protocol.ReceiptRecorded {
			t.Error(got)
		}
		if run := h.run(job); run.State != carillon.StateCanceled {
			t.Error(run.State)
		}
	})
}

func TestAWorkerWhoseSessionIsOverIsToldSoAndGetsNothing(t *testing.T) {
	in(t, 2, func(h *house) {
		worker := h.register(h.nodes[0])
		time.Sleep(2 * carillon.SessionTime)
		if _, err := h.nodes[0].Beat(context.Background(), carillon.Beat{
			ID: worker,
		}); !errors.Is(err, carillon.ErrSessionOver) {
			t.Errorf("beat: %v", err)
		}
		for i, n := range h.nodes {
			if _, err := n.Pull(context.Background(), protocol.Pull{
				Worker: worker, Max: 1,
			}); !errors.Is(err, carillon.ErrSessionOver) {
				t.Errorf("pull from node %d: %v", i, err)
			}
		}
	})
}

func TestAPullEndsWhenTheNodeHearsThatTheSessionIsOver(t *testing.T) {
	for name, end := range map[string]func(h *house, worker string){
		"from the worker": func(h *house, worker string) { h.must(h.nodes[0].Leave(context.Background(), worker)) },
		"from another node": func(h *house, worker string) {
			h.must(h.nodes[1].Leave(context.Background(), worker))
			time.Sleep(600 * time.Millisecond) // nodes list the members twice a second
		},
		"from a beat": func(h *house, worker string) {
			h.must(h.coordinator.Leave(context.Background(), []string{worker}))
			_, _ = h.nodes[0].Beat(context.Background(), carillon.Beat{ID: worker})
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, 2, func(h *house) {
				n := h.nodes[0]
				worker := h.register(n)
				time.Sleep(time.Second) // until every node has it in its list
				answer := make(chan error, 1)
				go func() {
					_, err := n.Pull(context.Background(), protocol.Pull{Worker: worker, Max: 9})
					answer <- err
				}()
				synctest.Wait()
				end(h, worker)
				synctest.Wait()
				select {
				case err := <-answer:
					if !errors.Is(err, carillon.ErrSessionOver) {
						t.Errorf("the pull answers %v", err)
					}
				default:
					t.Error("the pull waits")
				}
				if run := h.run(h.submit(n, nil)); run.State != carillon.StateWaiting {
					t.Errorf("the run is %s by %s", run.State, run.Worker)
				}
			})
		})
	}
}

func TestAJobIsSubmittedAlreadyClaimedWhileAPullWaits(t *testing.T) {
	in(t, 1, func(h *house) {
		n := h.nodes[0]
		worker := h.register(n)
		got := make(chan []protocol.Task, 1)
		go func() {
			tasks, _ := n.Pull(context.Background(), protocol.Pull{
				Worker: worker, Want: carillon.Want{Queues: []string{"default"}}, Max: 2,
			})
			got <- tasks
		}()
		time.Sleep(100 * time.Millisecond)
		job := h.submit(n, nil)
		other := h.submit(n, func(d *carillon.Definition) { d.Queue = "other" })
		tasks := <-got
		if len(tasks) != 1 || tasks[0].Run.ID.Job != job || tasks[0].Run.Worker != worker ||
			tasks[0].Run.Rev != 1 {
			t.Fatalf("%+v", tasks)
		}
		if run := h.run(other); run.State != carillon.StateWaiting {
			t.Errorf("the job of a queue that it does not serve is %s", run.State)
		}
	})
}

func TestQueuesGetTheirSharesWhileBothHaveWork(t *testing.T) {
	in(t, 1, func(h *house) {
		n := h.nodes[0]
		worker := h.register(n)
		for i := range 800 {
			queue := []string{"big", "small"}[i%2]
			h.submit(n, func(d *carillon.Definition) { d.Queue = queue })
		}
		count := map[string]int{}
		for range 40 {
			for _, task := range h.pull(n, worker, 8, "big=3", "small") {
				count[task.Run.Queue]++
			}
		}
		if count["big"] != 240 || count["small"] != 80 {
			t.Errorf("%v", count)
		}
		for range 60 { // the rest of one queue is not held back for the other
			for _, task := range h.pull(n, worker, 8, "big=3", "small") {
				count[task.Run.Queue]++
			}
		}
		if count["big"] != 400 || count["small"] != 400 {
			t.Errorf("at the end %v", count)
		}
	})
}

// The weights of the server are for workers that give none. Those of a worker divide its own slots.
func TestTheWeightsOfAWorkerTakePrecedenceOverThoseOfTheServer(t *testing.T) {
	in(t, 1, func(h *house) {
		n := h.nodes[0]
		worker := h.register(n)
		n.queue.SetWeights(map[string]int{"small": 7})
		for i := range 800 {
			queue := []string{"big", "small"}[i%2]
			h.submit(n, func(d *carillon.Definition) { d.Queue = queue })
		}
		for _, c := range []struct {
			queues []string
			big    int
		}{{[]string{"big=3", "small"}, 120}, {[]string{"big", "small"}, 20}, {nil, 20}} {
			count := map[string]int{}
			for range 20 {
				for _, task := range h.pull(n, worker, 8, c.queues...) {
					count[task.Run.Queue]++
				}
			}
			if count["big"] < c.big-1 || count["big"] > c.big+1 || count["big"]+count["small"] != 160 {
				t.Errorf("a worker of %v got %v, want %d of big", c.queues, count, c.big)
			}
		}
	})
}

func TestOutputThatCannotBeKeptIsAskedForAgain(t *testing.T) {
	in(t, 1, func(h *house) {
		n := h.nodes[0]
		worker := h.register(n)
		h.submit(n, nil)
		task := h.one(n, worker)
		lines := []carillon.Line{{Text: "one", Stream: "stdout"}, {Text: "two", Stream: "stdout", Offset: 1}}
		for range 2 { // the answer was lost
			if got := h.report(n, worker, protocol.Report{
				Held: task.Held(), Lines: lines,
			}); got != protocol.ReceiptRecorded {
				t.Fatal(got)
			}
		}
		kept, err := h.logs.Read(context.Background(), carillon.LogQuery{
			Namespace: "default", Run: task.Run.ID, AfterOffset: -1, Limit: 9,
		})
		if err != nil || len(kept) != 2 {
			t.Errorf("%+v, %v", kept, err)
		}
	})
}

// A slot of a waiting pull is reserved for a job that is being submitted; then its worker leaves.
func TestAPullWhoseSessionEndedWaitsForTheSubmitThatReservedASlot(t *testing.T) {
	for name, committed := range map[string]bool{"which fails": false, "which is committed": true} {
		t.Run(name, func(t *testing.T) {
			in(t, 1, func(h *house) {
				n := h.nodes[0]
				worker := h.register(n)
				pulled := make(chan int, 1)
				go func() {
					tasks, _ := n.Pull(context.Background(), protocol.Pull{Worker: worker, Max: 3})
					pulled <- len(tasks)
				}()
				synctest.Wait()
				job, run := h.reserve(n, worker)
				h.must(n.Leave(context.Background(), worker))
				time.Sleep(2 * protocol.PullWait)
				select {
				case <-pulled:
					t.Fatal("the pull did not wait for the submit")
				default:
				}
				if committed {
					lost, err := n.ledger.Commit(
						context.Background(), []carillon.Change{{Job: &job, Runs: []carillon.Run{run}}},
					)
					if err != nil || lost != nil {
						t.Fatal(lost, err)
					}
				}
				n.Release([]carillon.RunID{run.ID})
				synctest.Wait()
				select {
				case tasks := <-pulled:
					if tasks != 0 {
						t.Errorf("%d tasks", tasks)
					}
				default:
					t.Error("the pull waits for a reservation that nothing ends")
				}
				if !committed {
					return
				}
				if got := h.run(job.ID); got.Losses != 1 || got.Crashes != 0 || got.Worker == worker {
					t.Errorf("the run that its worker never heard of: %+v", got)
				}
			})
		})
	}
}

// A pull has claimed a run from the queue, and waits for the commit of a submit that reserved another slot of
// it. The worker cannot list the claimed run before it has the answer.
func TestWhatAPullHasClaimedIsNotTakenBackBeforeItAnswers(t *testing.T) {
	in(t, 1, func(h *house) {
		n := h.nodes[0]
		worker := h.register(n)
		pulled := make(chan []protocol.Task, 1)
		go func() {
			tasks, _ := n.Pull(context.Background(), protocol.Pull{Worker: worker, Max: 3})
			pulled <- tasks
		}()
		synctest.Wait()
		_, reserved := h.reserve(n, worker)
		soon := h.clock.Now().Add(100 * time.Millisecond)
		job := h.submit(n, func(d *carillon.Definition) { d.Schedule.At = soon })
		h.beat(n, worker, 10*time.Second)
		n.Release([]carillon.RunID{reserved.ID})
		tasks := <-pulled
		h.beat(n, worker, 0) // the worker wrote its list before the answer came
		synctest.Wait()
		run := h.run(job)
		if run.State != carillon.StateClaimed || run.Losses != 0 || len(tasks) != 1 ||
			tasks[0].Held() != run.Held() {
			t.Errorf("pulled %+v, but the run is %+v", tasks, run)
		}
		h.beat(n, worker, 10*time.Second) // the answer never reached the worker
		synctest.Wait()
		if run = h.run(job); run.Losses == 0 {
			t.Errorf("a run that its worker does not know of is not taken back: %+v", run)
		}
	})
}
