package main

import (
	"strings"
	"testing"
)

func TestTurnsAreComparedInPairs(t *testing.T) {
	// The machine becomes ten times slower half way; the later version is always 5 % faster.
	var turns []turn
	for i := range 100 {
		speed := 1000.0
		if i >= 50 {
			speed = 100
		}
		turns = append(turns, turn{before: speed, now: 1.05 * speed, again: speed})
	}
	var out strings.Builder
	if err := reportTurns(&out, []step{{name: "drain"}}, [][]turn{turns}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"drain", "+5.0 %", "+5.0 % to +5.0 %", "+0.0 % to +0.0 %"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

func TestBoundsOfTheMedian(t *testing.T) {
	for _, c := range []struct {
		turns int
		want  string
	}{
		{1, "+1.0 % to +1.0 %"},
		{4, "+1.0 % to +4.0 %"},
		{100, "+40.0 % to +61.0 %"}, // ranks 40 to 61 of 100, as tables of the binomial distribution have it
	} {
		var s shares
		for i := range c.turns {
			s = append(s, 1+float64(i+1)/100)
		}
		if got := s.bounds(); got != c.want {
			t.Errorf("%d turns: %s, want %s", c.turns, got, c.want)
		}
	}
}
