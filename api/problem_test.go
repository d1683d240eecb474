package api_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/api"
)

// After an outage a request that has a key can be sent again; without one its caller has to look first.
func TestAFullDiskSaysHowToGoOn(t *testing.T) {
	h := newHouse(t, func(c *api.Config) { c.Ledger = fullDisk{c.Ledger} })
	const room = "make room on the disk of the store; the server then goes on by itself. "
	for header, want := range map[string]string{
		"":  room + "It does not know whether this request changed something. Look, then try again",
		key: room + "Send the request again then, with the same Idempotency-Key",
	} {
		a := h.call("POST", "/v1/jobs", echo, header).problem(503, "")
		if a.text("type") != "urn:carillon:problem:full" || a.text("detail") != want {
			t.Errorf("%q: %s", header, a.Body)
		}
	}
}

// fullDisk is a ledger whose store has no room.
type fullDisk struct{ api.Ledger }

func (fullDisk) Submit(context.Context, string, []carillon.Definition) ([]carillon.Job, error) {
	return nil, fmt.Errorf("commit: %w", carillon.ErrFull)
}
