package carillon

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRunJSONRoundTrip(t *testing.T) {
	id := RunID{Job: 42, Due: 1_790_000_000_000}
	for name, run := range map[string]Run{
		"a run that waits": {ID: id, State: StateWaiting, Wake: id.Due, Covers: id.Due},
		"a retry waits longer than its due time": {
			ID: id, State: StateWaiting, Wake: id.Due + 5000, Attempt: 2, Failures: 1, Losses: 1,
			Reason: "exit code 1",
		},
		"a paused job's run has no next attempt": {
			ID: id, State: StateWaiting, Wake: Never, Flags: FlagOnHold,
		},
		"a run that was asked to stop": {
			ID: id, State: StateRunning, Flags: FlagStop, Attempt: 1, Claimed: id.Due + 1,
			Started: id.Due + 2, Worker: "w1", Version: 3,
		},
		"an ended run, with all that history keeps": {
			ID: id, State: StateSucceeded, Namespace: "default", Queue: "mail", Priority: 9,
			About:   &About{"hello", "demo", "me"},
			Attempt: 1, Claimed: id.Due, Started: id.Due, Ended: id.Due + 7, RetryOf: id.Due - 1000,
			Output: &Output{
				Result: []byte(`{"rows":3}`), Checkpoint: []byte(`"page 2"`), Payload: []byte(`null`),
			},
		},
		"a range of skipped due times": {
			ID: id, State: StateSkipped, Until: id.Due + 60_000, Reason: "missed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			written, err := json.Marshal(run)
			if err != nil {
				t.Fatal(err)
			}
			var read Run
			if err := json.Unmarshal(written, &read); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(run, read); diff != "" {
				t.Errorf("read back (-written +read):\n%s", diff)
			}
		})
	}
}

func TestRunJSONKeepsTextResultsStable(t *testing.T) {
	for _, result := range []string{"plain text", "1", `"1"`, "null", "{", "\xff"} {
		first, err := json.Marshal(Run{
			ID: RunID{1, 1}, State: StateFailed, Output: &Output{Result: []byte(result)},
		})
		if err != nil {
			t.Fatal(err)
		}
		var read Run
		if err := json.Unmarshal(first, &read); err != nil {
			t.Fatal(err)
		}
		second, err := json.Marshal(read)
		if err != nil || string(second) != string(first) {
			t.Errorf("result %q: first %s, then %s, %v", result, first, second, err)
		}
	}
}

func TestRunJSONLeavesEscapingToTheWriter(t *testing.T) {
	run := Run{ID: RunID{1, 1}, State: StateFailed, Reason: "<a> && b"}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(run); err != nil || !strings.Contains(b.String(), run.Reason) {
		t.Errorf("%s, %v", b.String(), err)
	}
	if text, err := json.Marshal(run); err != nil || strings.ContainsAny(string(text), "<>&") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestRunJSONRefusesNonsense(t *testing.T) {
	for _, text := range []string{`{"id":"run_x"}`, `{"state":"dreaming"}`, `{"due_at":"soon"}`, `[]`} {
		if err := json.Unmarshal([]byte(text), new(Run)); err == nil {
			t.Errorf("%s was read without an error", text)
		}
	}
}
