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

// Nothing was written, so the caller need not look before it tries again.
func TestABusyAnswerSaysThatNothingWasChanged(t *testing.T) {
	h := newHouse(t, func(c *api.Config) { c.Ledger = busy{c.Ledger} })
	for _, header := range []string{"", key} {
		a := h.call("POST", "/v1/jobs", echo, header).problem(503, "")
		if a.text("type") != "urn:carillon:problem:busy" || a.Header().Get("Retry-After") != "1" ||
			a.text("detail") != "other requests changed the same thing each time before this one could. "+
				"This request changed nothing; send it again" {
			t.Errorf("%q: %v %s", header, a.Header(), a.Body)
		}
	}
}

// busy is a ledger on which other writers are always quicker.
type busy struct{ api.Ledger }

func (busy) Submit(context.Context, string, []carillon.Definition) ([]carillon.Job, error) {
	return nil, fmt.Errorf("%w: 100 tries lost; try again", carillon.ErrBusy)
}
