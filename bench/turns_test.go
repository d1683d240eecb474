package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestRoundsAreComparedWithinThemselves(t *testing.T) {
	// The machine becomes ten times slower half way. The two programs of the earlier version differ much, the
	// later version is always 5 % above their geometric mean.
	var starts [][]round
	for i := range 10 {
		speed := 1000.0
		if i >= 5 {
			speed = 100
		}
		starts = append(starts, []round{{before: 0.8 * speed, now: 1.05 * speed, again: speed / 0.8}})
	}
	for _, c := range []struct {
		wait bool
		want string
	}{
		{false, "drain jobs/s 10 550 578 +5.0 % +5.0 % to +5.0 % +56.2 % +56.2 % to +56.2 % faster"},
		{true, "drain ms 10 550 578 +5.0 % +5.0 % to +5.0 % +56.2 % +56.2 % to +56.2 % slower"},
	} {
		var out strings.Builder
		err := reportRounds(&out, []step{{figure: "drain", wait: c.wait}}, [][][]round{starts})
		row := strings.Join(strings.Fields(strings.Split(out.String(), "\n")[2]), " ")
		if err != nil || row != c.want {
			t.Errorf("%v %q, want %q", err, row, c.want)
		}
	}
}

func TestAStepWithoutAStartIsReportedAsSuch(t *testing.T) {
	var out strings.Builder
	err := reportRounds(&out, []step{{figure: "drain"}}, make([][][]round, 1))
	if err != nil || !strings.Contains(out.String(), "not measured") {
		t.Errorf("%v\n%s", err, &out)
	}
}

func TestBoundsOfTheMedian(t *testing.T) {
	for _, c := range []struct {
		starts int
		want   string
	}{
		{1, "not below 6 starts"},
		{5, "not below 6 starts"},
		{6, "+1.0 % to +6.0 %"},
		{100, "+40.0 % to +61.0 %"}, // ranks 40 and 61 of 100, as tables of the binomial distribution have it
	} {
		var s shares
		for i := range c.starts {
			s = append(s, 1+float64(i+1)/100)
		}
		if got := s.bounds(); got != c.want {
			t.Errorf("%d starts: %s, want %s", c.starts, got, c.want)
		}
	}
}

func TestLongStepsAreOnlyTakenByName(t *testing.T) {
	for only, want := range map[string]bool{"": false, "drain_backlog_1m": true} {
		chosen, err := chooseSteps(only)
		if got := strings.Contains(figures(chosen), "drain_backlog_1m"); err != nil || got != want {
			t.Errorf("only %q: %v, %v, want %v", only, err, got, want)
		}
	}
}

func TestWhatIsAskedOfAComparisonIsChecked(t *testing.T) {
	t.Chdir(t.TempDir()) // outside of any repository
	ask := func(only string, long time.Duration) error {
		_, err := newComparison(t.Context(), "no-such-commit", "", only, long)
		return err
	}
	without := ask("", time.Minute)
	if err := os.MkdirAll("bench/part", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{ask("", 0), "for: 0s is not valid"},
		{ask("drain,plain", time.Minute), `only: "plain" is not valid: want some of submit_x1,`},
		{without, "want the root of the repository"},
		{ask("drain,steady", time.Minute), `git knows no commit "no-such-commit"`},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v, want %s", c.err, c.want)
		}
	}
}
