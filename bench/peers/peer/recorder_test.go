package peer

import (
	"encoding/json"
	"testing"
)

func TestQuicklyReadsWhatPayloadWrites(t *testing.T) {
	for _, want := range []Job{{}, {Due: 1_800_000_000_123_456}, {Sleep: 3000}, {Due: 5, Sleep: 7}} {
		if got, ok := quickly(want.Payload()); !ok || got != want {
			t.Errorf("%s: %+v, %v", want.Payload(), got, ok)
		}
	}
	for _, other := range []string{
		``, `[]`, `{"customer" : 1}`, `{"due": 5, "customer": 1}`, `{"sleep":1,"due":2,"customer":3}`,
	} {
		if j, ok := quickly([]byte(other)); ok {
			t.Errorf("%s: %+v", other, j)
		}
	}
	if b := (Job{Due: 1}).Payload(); !json.Valid(b) || len(b) < 150 {
		t.Errorf("%s", b)
	}
}
