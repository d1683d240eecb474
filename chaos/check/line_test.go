package check

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

func TestBeforeAnythingRanThereAreNoLines(t *testing.T) {
	if lines, err := Read(filepath.Join(t.TempDir(), "witness")); err != nil || len(lines) != 0 {
		t.Errorf("read %v, %v; want no lines", lines, err)
	}
}

func TestALineThatIsJustBeingWrittenIsLeftOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "witness")
	want := Line{
		Kind: KindStart, Run: carillon.RunID{Job: 1, Due: 10}, Attempt: 2, Fence: 1<<20 | 2, At: 11,
		Mono: 5 * time.Second, Version: 1, Process: 77,
	}
	whole := want.String() + "\n"
	if err := os.WriteFile(path, []byte(whole+whole[:20]), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := Read(path)
	if err != nil || len(lines) != 1 || lines[0] != want {
		t.Errorf("read %v, %v; want %v", lines, err, want)
	}
}

func TestALineThatIsNotOneIsAnError(t *testing.T) {
	for _, text := range []string{
		"", "START", "BEGIN run_0000000000001000000000a 1 1 1 1 1 1", "START x 1 1 1 1 1 1",
	} {
		if l, err := Parse(text); err == nil {
			t.Errorf("%q was read as %v", text, l)
		}
	}
}
