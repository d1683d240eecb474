package carillon

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRateIsWrittenAsItIsRead(t *testing.T) {
	for text, want := range map[string]Rate{
		`"10/s"`: {10, time.Second}, `"1/m"`: {1, time.Minute}, `"1000000/h"`: {1000000, time.Hour},
	} {
		var r Rate
		if err := json.Unmarshal([]byte(text), &r); err != nil || r != want {
			t.Errorf("%s is read as %+v (%v)", text, r, err)
		}
		if b, err := json.Marshal(r); err != nil || string(b) != text {
			t.Errorf("%+v is written as %s (%v)", r, b, err)
		}
	}
	for _, text := range []string{
		`""`, `"10"`, `"-1/s"`, `"0/s"`, `"10/d"`, `"1.5/s"`, `"/s"`, `"10/s/s"`, `" 10/s"`, `"2000000/s"`,
	} {
		var r Rate
		if err := json.Unmarshal([]byte(text), &r); err == nil {
			t.Errorf("%s is read as %+v, want an error", text, r)
		}
	}
}

func TestBadLimitsAreRefusedByField(t *testing.T) {
	rate := Rate{10, time.Second}
	for field, limits := range map[string][]Limit{
		"limits":                make([]Limit, 9),
		"limits[0]":             {{Key: "a"}},
		"limits[0].key":         {{Key: strings.Repeat("k", 1024), Concurrency: 1}},
		"limits[1].key":         {{Key: "a", Concurrency: 1}, {Key: "a", Rate: rate}},
		"limits[0].concurrency": {{Key: "a", Concurrency: -1}},
		"limits[0].rate":        {{Key: "a", Rate: Rate{-1, time.Second}}},
		"limits[0].weight":      {{Key: "a", Concurrency: 2, Weight: 3}},
		"limits[0].burst":       {{Key: "a", Concurrency: 2, Burst: 3}},
	} {
		d := Definition{Limits: limits, Target: Target{Command: &Command{Shell: "true"}}}
		err, _ := d.Admit(1e12).(*FieldError)
		if err == nil || err.Field != field {
			t.Errorf("%s: %+v, want an error of that field", field, err)
		}
	}
	for _, limits := range [][]Limit{
		{{Key: "a", Concurrency: 3, Weight: 3}},
		{{Key: "a", Rate: rate}},
		{{Key: "a", Rate: rate, Weight: 5}},
		{{Key: "a", Rate: rate, Burst: 5, Weight: 5, Concurrency: 5}},
	} {
		d := Definition{Limits: limits, Target: Target{Command: &Command{Shell: "true"}}}
		if err := d.Admit(1e12); err != nil {
			t.Error(err)
		}
	}
}

// A claim and the end of its attempt leave the guard as it was, whatever else happens to the definition.
func TestAnAttemptGivesBackWhatItHasTaken(t *testing.T) {
	job := &Job{Namespace: "default", ID: 7, Definition: Definition{Limits: []Limit{
		{Key: "a", Concurrency: 3, Weight: 2},
		{Key: "b", Concurrency: 1, Weight: 1},
		{Key: "c", Rate: Rate{1, time.Hour}, Weight: 1, Burst: 1},
		{Key: "mail", Of: LimitQueue, Concurrency: 10, Weight: 1},
	}}}
	run := NewRun(job, 1000)
	verdict, claim := Candidate{Job: job, Run: run, Limits: job.Limits, Worker: "w"}.Decide(2000)
	if verdict != VerdictClaim || len(claim.Folds) != 4 {
		t.Fatalf("verdict %d with %d folds", verdict, len(claim.Folds))
	}
	guards := map[string]Guard{}
	fold(t, guards, claim.Folds, 2000, true)
	used := Used{}
	used.Add(&claim.Runs[0])
	for key, want := range map[string]int{
		"limit/key/a": 2, "limit/key/b": 1, "limit/key/c": 0, "limit/queue/mail": 1,
	} {
		g := guards[key]
		if n := g.UsedSlots(); n != want || used[HoldName{"default", key}] != want {
			t.Errorf("%s: %d slots are counted, want %d", key, n, want)
		}
	}
	fold(t, guards, claim.Folds[:1], 2000, false) // 2 + 2 of 3
	fold(t, guards, claim.Folds[2:3], 2000, false)

	end := EndChange(job, claim.Runs[0].Finish(job, Outcome{Kind: OutcomeSuccess}, 3000, 0), nil)
	fold(t, guards, end.Folds, 3000, true)
	for key, g := range guards {
		if counterOf(&g).Used != 0 || g.Expires != 0 {
			t.Errorf("%s is %s, and expires at %s", key, g.Value, g.Expires)
		}
	}
	if end.Runs[0].Slots != "" || len(end.Folds) != 3 {
		t.Errorf("the ended run has %q, %d folds", end.Runs[0].Slots, len(end.Folds))
	}
}

func fold(t *testing.T, guards map[string]Guard, folds []Fold, now Time, want bool) {
	t.Helper()
	for _, f := range folds {
		g, ok := f.Step(guards[f.Key], now)
		if ok != want {
			t.Errorf("%s: %v, want %v", f.Key, ok, want)
		}
		if ok {
			g.Key = f.Key
			guards[f.Key] = g
		}
	}
}

// However starts are asked for, no stretch of time has more of them than the rate and a burst; and callers
// that always ask get all that the rate allows.
func TestARateIsExact(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		per := ratePeriods[random.IntN(2)].per
		l := Limit{Key: "k", Rate: Rate{1 + random.IntN(3000), per}, Weight: 1 + random.IntN(3)}
		l.Burst = l.Weight + random.IntN(5)
		var c counter
		var starts []Time
		now := Time(1e12)
		greedy := random.IntN(2) == 0
		for range 3000 {
			if c.allows(&l, false, now) {
				c = c.take(&l, now)
				starts = append(starts, now)
				continue
			}
			if !greedy {
				now = now.Add(time.Duration(random.IntN(20)) * time.Millisecond)
			}
			now = max(now, c.rateFree(&l, now))
		}
		for n := 1; n < len(starts); n += 1 + n/3 {
			for i := range starts[n:] {
				span := starts[i+n].Sub(starts[i]) + time.Millisecond
				if l.Rate.interval() < time.Millisecond { // a start can have come earlier in its millisecond
					span += time.Millisecond
				}
				most := l.Burst + int(span/l.Rate.interval())
				if weight := (n + 1) * l.Weight; weight > most+l.Weight {
					t.Fatalf("%+v: %d starts of weight %d in %s", l, n+1, l.Weight, span)
				}
			}
		}
		last, all := len(starts)-1, time.Duration(len(starts)*l.Weight)*l.Rate.interval()
		if span := starts[last].Sub(starts[0]); greedy && l.Rate.interval() > time.Second/10 &&
			span > all*101/100 {
			t.Errorf("%+v: %d starts take %s, want %s", l, len(starts), span, all)
		}
	}
}

func TestAClockThatIsSetBackDoesNotStopARate(t *testing.T) {
	l := Limit{Key: "k", Rate: Rate{10, time.Second}, Weight: 1, Burst: 1}
	c := counter{}.take(&l, 1e12)
	back := Time(1e12).Add(-time.Hour)
	if !c.allows(&l, false, back) {
		t.Errorf("the next start is %s later", c.rateFree(&l, back).Sub(back))
	}
	c = c.take(&l, back)
	if c.allows(&l, false, back) || !c.allows(&l, false, back.Add(100*time.Millisecond)) {
		t.Errorf("after that the next start is %s later, want 100ms", c.rateFree(&l, back).Sub(back))
	}
}

func TestARateThatIsRaisedIsInForceAtOnce(t *testing.T) {
	slow := Limit{Key: "k", Rate: Rate{1, time.Hour}, Weight: 1, Burst: 1}
	quick := Limit{Key: "k", Rate: Rate{10, time.Second}, Weight: 1, Burst: 1}
	c := counter{}.take(&slow, 1e12)
	if c.allows(&slow, false, 1e12+1000) || !c.allows(&quick, false, 1e12+1000) {
		t.Error("the old rate counts")
	}
}

// The guard of a rate is kept for as long as it says something.
func TestTheGuardOfASlowRateIsKeptForLonger(t *testing.T) {
	l := Limit{Key: "k", Rate: Rate{1, time.Hour}, Weight: 10, Burst: 10}
	g, _ := l.take(false)(Guard{Key: l.Hold()}, 1e12)
	c, ok := g.ExpireUnused(1e12)
	if !ok || c.Guards[0].Expires < Time(1e12).Add(10*time.Hour) {
		t.Errorf("%t: %+v expires before a start that counts for 10h", ok, c.Guards)
	}
}

// Only a counter that nothing uses can expire, and one that is used again must not: Forget would remove it
// with the slots that it counts.
func TestTheGuardOfALimitExpiresWhileNothingUsesIt(t *testing.T) {
	l := Limit{Key: "k", Concurrency: 2, Weight: 1}
	took, _ := l.take(false)(Guard{Namespace: "a", Key: l.Hold(), Rev: 7}, 1e12)
	lined, _ := lineUp(Guard{Key: l.Hold()}, 1e12)
	for _, used := range []Guard{took, lined} {
		if c, ok := used.ExpireUnused(1e12); ok {
			t.Errorf("%s expires at %s", used.Value, c.Guards[0].Expires)
		}
	}
	given, _ := giveSlot(1)(took, 1e12)
	c, ok := given.ExpireUnused(1e12)
	if !ok || c.Guards[0].Expires != Time(1e12).Add(time.Hour) || c.Guards[0].Rev != 7 {
		t.Fatalf("%t, the change is %+v", ok, c)
	}
	if _, again := c.Guards[0].ExpireUnused(1e12 + 1000); again {
		t.Error("it expires later and later")
	}
	for name, step := range map[string]func(Guard, Time) (Guard, bool){
		"take": l.take(false), "give": giveSlot(1), "line up": lineUp,
		"a start by the rate": (&Limit{Key: "k", Rate: Rate{1, time.Second}, Weight: 1, Burst: 1}).take(false),
	} {
		if g, ok := step(c.Guards[0], 1e12+1000); !ok || g.Expires != 0 {
			t.Errorf("%s: it expires at %s", name, g.Expires)
		}
	}
}

// A claim and an end that are written together leave the number of slots as it was, but not the guard: an
// audit that reads rows meanwhile must notice.
func TestAClaimAlwaysChangesTheGuard(t *testing.T) {
	l := Limit{Key: "k", Concurrency: 1, Weight: 1}
	before, _ := l.take(false)(Guard{Key: l.Hold()}, 1)
	after, _ := giveSlot(1)(before, 2)
	if after, _ = l.take(false)(after, 2); string(after.Value) == string(before.Value) {
		t.Errorf("both times it is %s", after.Value)
	}
}

// The line of one limit is not overtaken by runs that were put in the line of another one from the beginning.
func TestALineIsNotOvertakenByRunsOfAnotherLine(t *testing.T) {
	job := &Job{Namespace: "default", ID: 7, Definition: Definition{Limits: []Limit{
		{Key: "one", Concurrency: 1, Weight: 1}, {Key: "many", Concurrency: 9, Weight: 1},
	}}}
	many, _ := lineUp(Guard{Key: job.Limits[1].Hold()}, 1)
	d := Candidate{Job: job, Run: NewRun(job, 1), Limits: job.Limits, Counters: []Guard{many}}
	verdict, c := d.Decide(2)
	if verdict != VerdictWait || c.Runs[0].Hold != job.Limits[1].Hold() {
		t.Errorf("verdict %d, %+v", verdict, c.Runs)
	}
	d.Run = c.Runs[0] // it has waited
	if verdict, _ := d.Decide(3); verdict != VerdictReady {
		t.Errorf("verdict %d", verdict)
	}
}

// Being in a line from the beginning is no excuse for a run that is too late; having waited in it is.
func TestTheMisfirePolicyRulesRunsThatAreInALineFromTheBeginning(t *testing.T) {
	job := &Job{Namespace: "default", ID: 7, Definition: Definition{
		Schedule: Schedule{Every: Duration(time.Minute), StartsAt: 1}, Overlap: OverlapAllow,
		Misfire: Misfire{Policy: MisfireSkip}, Limits: []Limit{{Key: "k", Concurrency: 1, Weight: 1}},
	}}
	d := Candidate{Job: job, Run: NewRun(job, 60_001), Limits: job.Limits, Worker: "w"}
	d.Run.Covers = d.Run.ID.Due
	if verdict, _ := d.Decide(10_000_000); verdict != VerdictEnd {
		t.Errorf("verdict %d", verdict)
	}
	d.Run = d.Run.Park(d.Run.Hold).Runs[0]
	if verdict, _ := d.Decide(10_000_000); verdict != VerdictClaim {
		t.Errorf("verdict %d", verdict)
	}
}

// A run that comes while others wait goes behind them, even if there is room.
func TestALineIsNotOvertaken(t *testing.T) {
	l := Limit{Key: "k", Concurrency: 3, Weight: 1}
	g, _ := lineUp(Guard{Key: l.Hold()}, 1)
	if _, ok := l.take(false)(g, 1); ok {
		t.Error("a run that comes now overtakes the line")
	}
	if _, ok := l.take(true)(g, 1); !ok {
		t.Error("a run of the line does not get a free slot")
	}
	line := LimitLineOf(HoldName{"default", l.Hold()}, &g)
	closed, any := line.Closed()
	if !any {
		t.Fatal("there is nothing to close")
	}
	another, _ := lineUp(g, 2)
	if after, ok := closed.Folds[0].Step(another, 3); !ok || !after.HasLine() {
		t.Errorf("a line that got a run meanwhile is closed: %s", after.Value)
	}
	if after, ok := closed.Folds[0].Step(g, 3); !ok || after.HasLine() || after.Expires != 0 {
		t.Errorf("an empty line stays open: %s", after.Value)
	}
}

func TestLimitHoldsHaveWords(t *testing.T) {
	for hold, want := range map[string]string{
		"limit/key/customer/42": "limit customer/42", "limit/queue/mail": "limit of queue mail",
		"gate/x": "", "limit/": "",
	} {
		if words, is := LimitHold(hold); words != want || is != (want != "") {
			t.Errorf("%s: %q", hold, words)
		}
	}
}

func TestOnlyJobsWithASingleSlotHaveALineFromTheBeginning(t *testing.T) {
	job := &Job{Definition: Definition{Limits: []Limit{
		{Key: "a", Concurrency: 2}, {Key: "b", Rate: Rate{1, time.Second}},
	}}}
	if run := NewRun(job, 1); run.Hold != "" {
		t.Errorf("%q", run.Hold)
	}
	job.Limits = append(slices.Clone(job.Limits), Limit{Key: "c", Concurrency: 1})
	if run := NewRun(job, 1); run.Hold != "limit/key/c" || run.Parked() {
		t.Errorf("%q", run.Hold)
	}
}

func TestACounterIsReadAsItIsWritten(t *testing.T) {
	for _, c := range []counter{
		{},
		{1, 0, 0, 12345, 0},
		{10, 1, 2, 3, 1_800_000_000_000_000_000},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64 - 1, 9, math.MaxInt64},
		{-1, 0, math.MinInt64, 1, -5},
	} {
		if g := c.guard(Guard{}); counterOf(&g) != c {
			t.Errorf("%+v is written as %q and read as %+v", c, g.Value, counterOf(&g))
		}
	}
	for _, b := range []string{"", " ", "x", "1x", "9223372036854775808", " 1", "--1"} {
		if n, _, ok := cutNumber([]byte(b)); ok {
			t.Errorf("%q is read as %d", b, n)
		}
	}
}
