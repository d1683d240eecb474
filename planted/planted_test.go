package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/carillon-run/carillon/internal/overlay"
)

// A list that no longer fits the code would plant nothing.
func TestEveryBugFitsTheCode(t *testing.T) {
	bugs, err := readLists()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, b := range bugs {
		if names[b.name] || b.origin == "" || len(b.tests) == 0 || len(b.edits) == 0 {
			t.Errorf("%s: want a name of its own, an origin, tests and edits", b.name)
		}
		names[b.name] = true
		_, err := overlay.Apply(b.edits, func(path string) ([]byte, error) {
			return os.ReadFile(filepath.Join("..", path))
		})
		if err != nil {
			t.Errorf("%s: %v", b.name, err)
		}
	}
}

func TestAListIsRead(t *testing.T) {
	bugs, err := readList(`About the list.

== the first
origin: a report
tests: ./a ./b
--- a/a.go
 	one
-	two
+	three
--- a/a.go
-	four
== the second
origin: an idea
tests: .
--- b.go
+	five
 	six
`)
	if err != nil || len(bugs) != 2 || bugs[0].name != "the first" || len(bugs[0].tests) != 2 {
		t.Fatalf("%+v, %v", bugs, err)
	}
	want := []overlay.Edit{
		{File: "a/a.go", Was: "\tone\n\ttwo\n", Is: "\tone\n\tthree\n"}, {File: "a/a.go", Was: "\tfour\n"},
	}
	if !slices.Equal(bugs[0].edits, want) {
		t.Errorf("edits %q, want %q", bugs[0].edits, want)
	}
	for _, list := range []string{"== bad\nby: me\n", "== bad\n--- a.go\n?\n"} {
		if _, err := readList(list); err == nil || !strings.Contains(err.Error(), "bad") {
			t.Errorf("%q: %v", list, err)
		}
	}
}

func TestTheTestThatFailedIsNamed(t *testing.T) {
	for out, want := range map[string]string{
		"ok  \tpackage\t0.1s\n--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/case (0.1s)\n        x\n": "TestA/case",
		"panic: test timed out after 10m\nrunning tests:\n\tTestB (10m)\n":                          "TestB, which did not end",
		"panic: nil\n\ngoroutine 1\n":                          "panic: nil",
		"a.go:1: undefined: x\nFAIL\tpackage [build failed]\n": "",
	} {
		if got := culprit(out); got != want {
			t.Errorf("%q: %q, want %q", out, got, want)
		}
	}
}
