package carillon_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestAClaimPlansTheNextRunInTheSameChange(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapSkip))
	run := planned(job, minute(1))
	run.Seq = 3
	verdict, c := carillon.Candidate{
		Job: job, Run: run, Guards: line(job, 0), Worker: worker,
	}.Decide(minute(1) + 5)

	claimed, next := run, planned(job, minute(2))
	claimed.State, claimed.Worker, claimed.Claimed, claimed.Attempt = carillon.StateClaimed, worker, minute(
		1,
	)+5, 1
	claimed.Flags |= carillon.FlagPlanned
	next.Seq, next.Rev = 4, 0
	want := carillon.Change{
		Runs: []carillon.Run{claimed, next}, Guards: line(job, minute(1)),
	}
	if diff := cmp.Diff(
		want, c, cmpopts.IgnoreFields(carillon.Guard{}, "Value"),
	); verdict != carillon.VerdictClaim ||
		diff != "" {
		t.Errorf("verdict %d (-want +got):\n%s", verdict, diff)
	}
	expectChange(
		t, c, "1m r5 v1 claimed guarded planned #1 seq 3", "2m r0 v1 waiting guarded seq 4", "turn r9 of 1m",
	)
}

func TestAClaimCanTakeTheListOfItsSubmit(t *testing.T) {
	for name, edit := range map[string]func(*carillon.Definition){
		"one-off": once(minute(1)), "recurring": minutely(carillon.OverlapAllow),
	} {
		t.Run(name, func(t *testing.T) {
			submit := carillon.Submit(newJob(t, edit), epoch)
			d := carillon.Candidate{Job: submit.Job, Run: submit.Runs[0], Worker: worker}
			_, want := d.Decide(minute(1))
			d.Reuse = submit.Runs
			verdict, got := d.Decide(minute(1))
			if diff := cmp.Diff(want, got); verdict != carillon.VerdictClaim || diff != "" {
				t.Errorf("verdict %d (-want +got):\n%s", verdict, diff)
			}
			if len(got.Runs) == 1 && &got.Runs[0] != &submit.Runs[0] {
				t.Error("the claim has made a new list")
			}
		})
	}
}

func TestWithoutAWorkerADueRunIsOnlyPassedOn(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapAllow))
	verdict, c := carillon.Candidate{Job: job, Run: planned(job, minute(1))}.Decide(minute(1))
	if verdict != carillon.VerdictReady {
		t.Errorf("verdict %d, want push", verdict)
	}
	expectChange(t, c)
}

// guards are states of the guard of a minutely job when its run of minute 5 is due. Earlier runs can be in
// its way.
var guards = []struct {
	name   string
	holder int // minutes
	queue  []int
}{
	{"free", 0, nil},
	{"its own", 5, nil},
	{"its own, another waits", 5, []int{6}},
	{"another's", 4, nil},
	{"another's, one waits", 3, []int{4}},
	{"another's, it waits", 4, []int{5}},
	{"another's, it waits behind one", 3, []int{4, 5}},
	{"free, it is next", 0, []int{5}},
	{"free, another is next", 0, []int{4}},
	{"free, another is next, it waits", 0, []int{4, 5}},
}

func TestNothingBecomesOfARunOnHold(t *testing.T) {
	for _, overlap := range []carillon.Overlap{
		carillon.OverlapAllow, carillon.OverlapSkip, carillon.OverlapReplace,
	} {
		for name, of := range map[string]func(*carillon.Job) carillon.Run{
			"due": func(j *carillon.Job) carillon.Run { return planned(j, minute(1)) },
			"retrying": func(j *carillon.Job) carillon.Run {
				return retrying(planned(j, minute(1)), minute(2))
			},
		} {
			job := newJob(t, minutely(overlap))
			run := of(job)
			run.Flags |= carillon.FlagOnHold
			for _, by := range []string{"", worker} {
				candidate := carillon.Candidate{Job: job, Run: run, Guards: line(job, 0), Worker: by}
				verdict, c := candidate.Decide(minute(90))
				if verdict != carillon.VerdictHold || len(c.Runs)+len(c.Guards) > 0 || c.Job != nil {
					t.Errorf("%s, %s, worker %q: verdict %d, %+v", overlap, name, by, verdict, c)
				}
			}
		}
	}
}

func TestWhatEveryPolicySaysToEveryTurn(t *testing.T) {
	const (
		take   = carillon.VerdictClaim
		ended  = carillon.VerdictEnd
		behind = carillon.VerdictWait
	)
	for policy, verdicts := range map[carillon.Overlap][]carillon.Verdict{
		// In the order of guards: free, own, own, other, one waits, waits, behind, next, other, other waits.
		carillon.OverlapSkip:     {take, take, take, ended, ended, behind, behind, take, ended, behind},
		carillon.OverlapQueue:    {take, take, take, behind, ended, behind, behind, take, ended, behind},
		carillon.OverlapQueueAll: {take, take, take, behind, behind, behind, behind, take, behind, behind},
		carillon.OverlapReplace:  {take, take, take, behind, behind, behind, behind, take, behind, behind},
		carillon.OverlapAllow:    {take, take, take, take, take, take, take, take, take, take},
	} {
		for i, guard := range guards {
			t.Run(string(policy)+" "+guard.name, func(t *testing.T) {
				job := newJob(t, minutely(policy))
				d := carillon.Candidate{
					Job: job, Run: planned(job, minute(5)), Guards: lineOf(job, guard.holder, guard.queue),
					Worker: worker,
				}
				d.Others = othersIn(job, guard.holder, guard.queue)
				verdict, c := d.Decide(minute(5))
				if verdict != verdicts[i] {
					t.Fatalf("verdict %d, want %d", verdict, verdicts[i])
				}
				checkDecision(t, d, verdict, c)
			})
		}
	}
}

func lineOf(job *carillon.Job, holder int, queue []int) carillon.Guards {
	var dues []carillon.Time
	for _, n := range queue {
		dues = append(dues, minute(n))
	}
	if holder == 0 {
		return line(job, 0, dues...)
	}
	return line(job, minute(holder), dues...)
}

// othersIn are the unfinished runs that a guard names: the holder is running, those in the queue wait.
func othersIn(job *carillon.Job, holder int, queue []int) (others []carillon.Run) {
	if holder != 0 && holder != 5 {
		others = append(others, claimed(planned(job, minute(holder))))
	}
	for _, n := range queue {
		if run := planned(job, minute(n)); n != 5 {
			run.Flags |= carillon.FlagPlanned
			others = append(others, run)
		}
	}
	return others
}

// checkDecision checks what holds for every decision about a run by the clock that has no successor yet.
func checkDecision(t *testing.T, d carillon.Candidate, verdict carillon.Verdict, c carillon.Change) {
	t.Helper()
	run, next := c.Runs[0], c.Runs[1]
	states := map[carillon.Verdict]carillon.State{
		carillon.VerdictClaim: carillon.StateClaimed, carillon.VerdictEnd: carillon.StateSkipped,
		carillon.VerdictWait: carillon.StateWaiting,
	}
	if run.ID != d.Run.ID || run.State != states[verdict] || !run.Has(carillon.FlagPlanned) ||
		run.Rev != d.Run.Rev {
		t.Errorf("the run became %s", tellRun(&run))
	}
	seq := int32(1)
	if verdict == carillon.VerdictEnd {
		seq = 0 // a skipped run does not count for max_runs
	}
	if next.Covers != minute(6) || next.ID.Due != minute(6) || next.State != carillon.StateWaiting ||
		next.Seq != seq || next.Rev != 0 {
		t.Errorf("the successor is %s, covers %s, number %d", tellRun(&next), since(next.Covers), next.Seq)
	}
	if !d.Run.Has(carillon.FlagGuarded) {
		return
	}
	holder, beside, queue := turns(d.Guards)
	if verdict == carillon.VerdictClaim && holder == d.Run.ID.Due {
		if len(c.Guards) != 0 {
			t.Errorf("a run that has its turn already writes the guard")
		}
		return
	}
	if verdict == carillon.VerdictWait && slices.Contains(queue, d.Run.ID.Due) {
		if len(c.Guards) != 0 {
			t.Errorf("a run that has its place already writes the guard")
		}
		return
	}
	if verdict == carillon.VerdictEnd {
		if len(c.Guards) != 0 || !slices.Equal(c.Compared, []carillon.GuardRev{d.Guards[0].Compare()}) {
			t.Errorf("the guard is not compared, or written: %v %v", c.Compared, c.Guards)
		}
		return
	}
	if len(c.Guards) != 1 || c.Guards[0].Rev != d.Guards[0].Rev || len(beside) > 0 {
		t.Fatalf("the guard is not compared: %v", c.Guards)
	}
	nowHolder, _, nowQueue := turns(c.Guards)
	waits := slices.Contains(nowQueue, d.Run.ID.Due)
	switch {
	case verdict == carillon.VerdictClaim && (nowHolder != d.Run.ID.Due || waits),
		verdict == carillon.VerdictWait && (nowHolder != holder || !waits):
		t.Errorf("verdict %d turns %s into %s", verdict, d.Guards[0].Value, c.Guards[0].Value)
	}
	if verdict == carillon.VerdictWait && run.Wake != minute(5).Add(30*time.Second) && nowHolder != 0 {
		t.Errorf("no loop looks again before %s", since(run.Wake))
	}
}

func TestASkipSaysWhatWasInTheWay(t *testing.T) {
	for name, c := range map[string]struct {
		overlap carillon.Overlap
		guard   func(*carillon.Job) carillon.Guards
		want    string
	}{
		"skip": {
			carillon.OverlapSkip, func(j *carillon.Job) carillon.Guards { return line(j, minute(4)) },
			" has not ended",
		},
		"skip, next": {
			carillon.OverlapSkip, func(j *carillon.Job) carillon.Guards { return line(j, 0, minute(4)) },
			" has not ended",
		},
		"queue": {
			carillon.OverlapQueue,
			func(j *carillon.Job) carillon.Guards { return line(j, minute(3), minute(4)) }, " waits already",
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob(t, minutely(c.overlap))
			_, change := carillon.Candidate{
				Job: job, Run: planned(job, minute(5)), Guards: c.guard(job),
			}.Decide(minute(5))
			run := change.Runs[0]
			if want := "overlap: " + runID(job, minute(4)) + c.want; run.Reason != want {
				t.Errorf("reason %q, want %q", run.Reason, want)
			}
			if run.Ended != minute(5) || run.About == nil || run.About.Name != job.Name || run.Until != 0 {
				t.Errorf("the record: %+v", run)
			}
		})
	}
}

func TestAQueueIsBounded(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapQueueAll))
	var queue []carillon.Time
	for n := range 1000 {
		queue = append(queue, minute(-2000+n))
	}
	verdict, c := carillon.Candidate{
		Job: job, Run: planned(job, minute(5)), Guards: line(job, minute(-3000), queue...),
	}.Decide(minute(5))
	if verdict != carillon.VerdictEnd || c.Runs[0].Reason != "overlap: 1000 runs wait already" {
		t.Errorf("verdict %d, reason %q", verdict, c.Runs[0].Reason)
	}
	verdict, _ = carillon.Candidate{
		Job: job, Run: planned(job, minute(5)), Guards: line(job, minute(-3000), queue[1:]...),
	}.Decide(minute(5))
	if verdict != carillon.VerdictWait {
		t.Errorf("with room for one: verdict %d", verdict)
	}
}

func TestReplaceStopsWhoRunsAndEndsWhoWaits(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapReplace))
	by := "replaced by " + runID(job, minute(5))
	run := planned(job, minute(5))
	waits := planned(job, minute(4))
	waits.Flags |= carillon.FlagPlanned
	stopping := claimed(planned(job, minute(3)))
	stopping.Flags |= carillon.FlagStop
	for name, c := range map[string]struct {
		guard  carillon.Guards
		others []carillon.Run
		want   []string
	}{
		"the holder runs": {
			line(job, minute(3)),
			[]carillon.Run{run, claimed(planned(job, minute(3)))},
			[]string{"3m r5 v1 claimed guarded planned stop #1: " + by, "turn r9 of 3m then 5m"},
		},
		"the holder was asked already, another waits": {
			line(job, minute(3), minute(4)),
			[]carillon.Run{waits, stopping},
			[]string{"4m r5 v1 skipped guarded planned: " + by, "turn r9 of 3m then 5m"},
		},
		"the holder is between two attempts": {
			line(job, minute(3)),
			[]carillon.Run{retrying(planned(job, minute(3)), minute(9))},
			[]string{"3m r5 v1 canceled guarded planned #1: " + by, "turn r9 then 5m"},
		},
		"who is in line and was not seen stays": {
			line(job, minute(3), minute(4)),
			[]carillon.Run{claimed(planned(job, minute(3)))},
			[]string{"3m r5 v1 claimed guarded planned stop #1: " + by, "turn r9 of 3m then 4m then 5m"},
		},
		"who is not in line is not in the way": {
			line(job, minute(3)),
			[]carillon.Run{manual(job, minute(4)+1), stopping},
			[]string{"turn r9 of 3m then 5m"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			verdict, change := carillon.Candidate{
				Job: job, Run: run, Guards: c.guard, Others: c.others,
			}.Decide(minute(5))
			if verdict != carillon.VerdictWait {
				t.Errorf("verdict %d", verdict)
			}
			wakes := " wakes 5m30s"
			if holder, _, queue := turns(change.Guards); holder == 0 && queue[0] == minute(5) {
				wakes = "" // at once: the end of another run will not wake it
			}
			want := []string{"5m r5 v1 waiting guarded planned" + wakes, "6m r0 v1 waiting guarded seq 1"}
			expectChange(t, change, append(want, c.want...)...)
		})
	}
}

func TestAScheduleEndsWithItsLastRun(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(*carillon.Definition)
		seq   int32
		guard carillon.Time
		want  []string
	}{
		"max_runs": {
			func(d *carillon.Definition) { d.Schedule.MaxRuns = 3 }, 2, 0,
			[]string{"5m r5 v1 claimed guarded planned #1 seq 2", "turn r9 of 5m"},
		},
		"max_runs, one left": {
			func(d *carillon.Definition) { d.Schedule.MaxRuns = 4 }, 2, 0,
			[]string{
				"5m r5 v1 claimed guarded planned #1 seq 2", "6m r0 v1 waiting guarded seq 3",
				"turn r9 of 5m",
			},
		},
		"max_runs, but this one is skipped": {
			func(d *carillon.Definition) { d.Schedule.MaxRuns = 3 }, 2, minute(4), nil,
		},
		"ends_at": {
			func(d *carillon.Definition) { d.Schedule.EndsAt = minute(6) - 1 }, 2, 0,
			[]string{"5m r5 v1 claimed guarded planned #1 seq 2", "turn r9 of 5m"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob(t, func(d *carillon.Definition) { minutely(carillon.OverlapSkip)(d); c.edit(d) })
			run := planned(job, minute(5))
			run.Seq = c.seq
			_, change := carillon.Candidate{
				Job: job, Run: run, Guards: line(job, c.guard), Worker: worker,
			}.Decide(minute(5))
			if c.want == nil {
				c.want = []string{
					"5m r5 v1 skipped guarded planned seq 2: overlap: " + runID(job, minute(4)) +
						" has not ended",
					"6m r0 v1 waiting guarded seq 2", "turn r9 stays",
				}
			}
			expectChange(t, change, c.want...)
		})
	}
}

func TestARunThatIsReplacedBeforeItBeganDoesNotCountForMaxRuns(t *testing.T) {
	job := newJob(t, func(d *carillon.Definition) {
		minutely(carillon.OverlapReplace)(d)
		d.Schedule.MaxRuns = 3
	})
	holder, guard := claimed(planned(job, minute(1))), line(job, minute(1)) // it does not stop
	others, run := []carillon.Run{holder}, planned(job, minute(2))
	run.Seq = 1
	for n := 3; n < 10; n++ { // each replaces the run before it, which has not begun
		verdict, c := carillon.Candidate{Job: job, Run: run, Guards: guard, Others: others}.Decide(run.ID.Due)
		if verdict != carillon.VerdictWait || len(c.Runs) < 2 || c.Runs[1].Covers != minute(n) {
			t.Fatalf("%s, the second of three to begin: verdict %d, %v", since(run.Covers), verdict, tell(c))
		}
		others, guard, run = []carillon.Run{holder, c.Runs[0]}, c.Guards, c.Runs[1]
		run.Rev = 1
	}
}

func TestARunThatAPersonAskedForAndThatReplacesTheLastOneLeavesRoomForAnother(t *testing.T) {
	job := newJob(t, func(d *carillon.Definition) {
		minutely(carillon.OverlapReplace)(d)
		d.Schedule.MaxRuns = 2
	})
	holder, guard := claimed(planned(job, minute(1))), line(job, minute(1)) // it does not stop
	second := planned(job, minute(2))
	second.Seq = 1
	verdict, c := carillon.Candidate{
		Job: job, Run: second, Guards: guard, Others: []carillon.Run{holder},
	}.Decide(minute(2))
	if verdict != carillon.VerdictWait || c.Runs[0].Covers != minute(2) {
		t.Fatalf("the second of two: verdict %d, %v", verdict, tell(c))
	}
	asked := carillon.NewRun(job, minute(2).Add(time.Second))
	asked.Flags |= carillon.FlagGuarded
	c.Runs[0].Rev = 1
	others := []carillon.Run{holder, c.Runs[0]}
	verdict, c = carillon.Candidate{
		Job: job, Run: asked, Guards: c.Guards, Others: others,
	}.Decide(asked.ID.Due)
	third := slices.ContainsFunc(c.Runs, func(r carillon.Run) bool { return r.Covers == minute(3) })
	if verdict != carillon.VerdictWait || !third {
		t.Errorf("verdict %d, no run at minute 3: %v", verdict, tell(c))
	}
}

// A node of the version before does not know all that a job can need.
func TestARunWithoutTheNeedsOfItsJobIsMendedAndNotClaimed(t *testing.T) {
	job := newJob(t, func(d *carillon.Definition) {
		d.Needs, d.FairBy = map[string]string{"gpu": "true"}, "acme"
	})
	run := carillon.NewRun(job, epoch)
	right := run.Lane()
	run.Rev, run.Needs, run.Share = 1, right.WithoutLabels().Needs, ""
	verdict, c := carillon.Candidate{Job: job, Run: run, Worker: "w"}.Decide(epoch)
	if verdict != carillon.VerdictWait || len(c.Runs) != 1 || c.Runs[0].State != carillon.StateWaiting ||
		c.Runs[0].Lane() != right || c.Runs[0].Wake != run.Wake {
		t.Errorf("verdict %d, %+v", verdict, c.Runs)
	}
	verdict, _ = carillon.Candidate{Job: job, Run: c.Runs[0], Worker: "w"}.Decide(epoch)
	if verdict != carillon.VerdictClaim {
		t.Errorf("then the verdict is %d", verdict)
	}
}
