package main

import "testing"

// A runtime that the edits do not fit would leave the order of goroutines to chance.
func TestTheEditsFitThisVersionOfGo(t *testing.T) {
	if _, err := changedRuntime(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTheBrokenPromiseIsTheFirstWordOfTheStory(t *testing.T) {
	for story, want := range map[string]string{
		"": "", "seed 1:\n  lost: a run": "lost", "seed 1:\n          concurrent:\n    a\n": "concurrent",
	} {
		if g := (&game{story: story}); g.broke() != want {
			t.Errorf("%q: %q, want %q", story, g.broke(), want)
		}
	}
}
