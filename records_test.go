package carillon_test

import (
	"testing"

	"github.com/carillon-run/carillon"
)

func TestAReportThatComesAgainIsToldFromOneThatCameTooLate(t *testing.T) {
	job := &carillon.Job{ID: 1, Namespace: "default", Definition: define(t, nil)}
	held := carillon.NewRun(job, 1000).Claim("worker_1", 1000)
	outcomes := map[string]carillon.Outcome{
		"success":   {Kind: carillon.OutcomeSuccess},
		"retriable": {Kind: carillon.OutcomeRetriable, Reason: "exit code 1"},
		"fatal":     {Kind: carillon.OutcomeFatal, Reason: "no such mailbox"},
		"stopped":   {Kind: carillon.OutcomeStopped, Reason: "stopped by ann"},
		"lost":      {Kind: carillon.OutcomeLost, Reason: "shutting down"},
	}
	for name, said := range outcomes {
		if recorded := held.Finish(job, said, 2000, 0); !recorded.Records(held.Held(), &said) {
			t.Errorf("%s was recorded, and a second report of it is refused", name)
		}
		if held.Records(held.Held(), &said) {
			t.Errorf("%s passes for recorded while the run is held", name)
		}
		for what, other := range map[string]carillon.Run{
			"was taken back": held.Finish(
				job, carillon.Outcome{Kind: carillon.OutcomeCrashed, Reason: "its worker worker_1 died"},
				2000, 0,
			),
			"was claimed anew": held.Finish(
				job, carillon.Outcome{Kind: carillon.OutcomeLost, Reason: "x"}, 2000, 0,
			).Claim("worker_2", 3000),
			"was claimed anew, and ended": held.Finish(
				job, carillon.Outcome{Kind: carillon.OutcomeLost, Reason: "x"}, 2000, 0,
			).
				Claim("worker_2", 3000).Finish(job, said, 4000, 0),
		} {
			if other.Records(held.Held(), &said) {
				t.Errorf("%s passes for recorded though the run %s", name, what)
			}
		}
	}
}
