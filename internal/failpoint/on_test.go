//go:build failpoints

package failpoint

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

func TestFailpointsAreFractionsOfKnownPoints(t *testing.T) {
	got, err := parse("claim.before=1/200,end.after=2/5,")
	want := map[string]chance{"claim.before": {1, 200}, "end.after": {2, 5}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if all, err := parse(Everywhere("1/3")); err != nil || len(all) != len(Points) {
		t.Errorf("everywhere: %v, %v", all, err)
	}
	for _, wrong := range []string{"claim=1/2", "claim.before", "claim.before=2", "claim.before=1/0"} {
		if all, err := parse(wrong); err == nil {
			t.Errorf("%s: %v, want an error", wrong, all)
		}
	}
}

func TestFailpointsSleepWhileTheirFileIsNotThere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "storm")
	t.Setenv("FAILPOINTS_WHILE", file)
	if awake() {
		t.Error("awake without the file")
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !awake() {
		t.Error("asleep with the file")
	}
}
