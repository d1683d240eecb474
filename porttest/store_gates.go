package porttest

import (
	"github.com/carillon-run/carillon"
)

// storeGate parks runs for a gate and releases them, as the scheduler does: page by page, from the first.
func storeGate(t *storeTest) {
	gate := &carillon.Gate{ID: "queue/mail", Mode: carillon.GateHold}
	var held []carillon.Candidate
	for i := range 7 {
		c := carillon.Submit(t.newJob(nil), t.now)
		c.Runs[0].ID.Due, c.Runs[0].Wake = t.now-carillon.Time(i*3%7), t.now
		c.Runs[0].Flags |= carillon.FlagAdditional // its due is not that of its job
		t.win(c)
		c.Runs[0].Rev = 1
		d := carillon.Candidate{Job: c.Job, Run: c.Runs[0], Gate: gate}
		verdict, park := d.Decide(t.now)
		t.equal("verdict", verdict, carillon.VerdictWait)
		t.win(park)
		d.Run = park.Runs[0]
		d.Run.Rev++
		held = append(held, d)
	}
	other := t.inLine("gate/queue/mai", 5)
	var left []carillon.RunID
	for {
		page := t.line(carillon.LineQuery{
			Lines: []carillon.HoldName{{Namespace: carillon.DefaultNamespace, Hold: gate.Hold()}},
			Until: carillon.Never, Limit: 3,
		})
		if len(page) == 0 {
			break
		}
		for i := range page {
			for k := range held {
				if held[k].Run.ID == page[i].ID {
					released := held[k]
					released.Run = page[i]
					t.win(released.Release(t.now))
				}
			}
			left = append(left, page[i].ID)
		}
	}
	t.equal("runs that left", len(left), len(held))
	for i := 1; i < len(left); i++ {
		if left[i].Due < left[i-1].Due {
			t.Errorf("%s left behind %s", left[i], left[i-1])
		}
	}
	t.equal("other gate", t.lineIDs("gate/queue/mai"), []carillon.RunID{other.ID})
}
