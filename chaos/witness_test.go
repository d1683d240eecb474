package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
)

// history makes lines from "KIND due attempt at", all of one job.
func history(text ...string) []Line {
	var lines []Line
	for _, s := range text {
		f := strings.Fields(s)
		due, attempt, at := number(f[1]), number(f[2]), number(f[3])
		run := carillon.Run{
			ID: carillon.RunID{Job: 1, Due: carillon.Time(due)}, Claimed: carillon.Time(due),
			Attempt: int32(attempt),
		}
		lines = append(lines, Line{
			Kind: f[0], Run: run.ID, Attempt: run.Attempt, Fence: run.Fence(), At: carillon.Time(at),
		})
	}
	return lines
}

func number(s string) (n int) {
	for _, r := range s {
		n = 10*n + int(r-'0')
	}
	return n
}

func TestTheCheckerFindsWhatIsBroken(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []Line
		want  string // empty: no promise is broken
	}{
		{"one run", history("START 10 1 10", "ALIVE 10 1 12", "END 10 1 15"), ""},
		{
			"an attempt that was cut off, then another",
			history("START 10 1 10", "START 10 2 20", "END 10 2 25"), "",
		},
		{"two runs in turn", history("START 10 1 10", "END 10 1 11", "START 20 1 20", "END 20 1 21"), ""},
		{"early", history("START 10 1 9", "END 10 1 15"), "early"},
		{
			"an old attempt that lives on",
			history("START 10 1 10", "START 10 2 20", "ALIVE 10 1 21", "END 10 2 25"), "overlap",
		},
		{"an older run that lives on", history("START 10 1 10", "START 20 1 20", "END 10 1 21"), "overlap"},
		{
			"an older run that starts after a newer one",
			history("START 20 1 20", "END 20 1 21", "START 10 1 22"), "overlap",
		},
		{"one attempt twice", history("START 10 1 10", "START 10 1 11"), "twice"},
		{"an end from nowhere", history("END 10 1 11"), "without START"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(Check(c.lines), "; ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

func TestBeforeAnythingRanThereAreNoLines(t *testing.T) {
	if lines, err := Read(filepath.Join(t.TempDir(), "witness")); err != nil || len(lines) != 0 {
		t.Errorf("read %v, %v; want no lines", lines, err)
	}
}

func TestALineThatIsJustBeingWrittenIsLeftOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "witness")
	run := carillon.Run{ID: carillon.RunID{Job: 1, Due: 10}, Attempt: 2}
	whole := fmt.Sprintf("START %s 2 %d 11\n", run.ID, run.Fence())
	if err := os.WriteFile(path, []byte(whole+whole[:20]), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := Read(path)
	want := Line{Kind: "START", Run: run.ID, Attempt: 2, Fence: run.Fence(), At: 11}
	if err != nil || len(lines) != 1 || lines[0] != want {
		t.Errorf("read %v, %v; want %v", lines, err, want)
	}
}
