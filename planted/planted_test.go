package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		_, err := b.files(func(path string) ([]byte, error) { return os.ReadFile(filepath.Join("..", path)) })
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
	files, err := bugs[0].files(func(string) ([]byte, error) { return []byte("\tone\n\ttwo\n\tfour\n"), nil })
	if err != nil || files["a/a.go"] != "\tone\n\tthree\n" {
		t.Errorf("%q, %v", files, err)
	}
	for _, text := range []string{"\tsix\n\tsix\n", "\tseven\n"} {
		_, err := bugs[1].files(func(string) ([]byte, error) { return []byte(text), nil })
		if err == nil || !strings.Contains(err.Error(), "want once") {
			t.Errorf("%q: %v", text, err)
		}
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
