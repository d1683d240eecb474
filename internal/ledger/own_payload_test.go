package ledger_test

import (
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/ledger"
)

func TestARepetitionHasThePayloadOfItsRunAlsoWhereHistoryHasForgottenThat(t *testing.T) {
	for name, rule := range map[string]carillon.Retention{
		"history has it":        {},
		"only as a dead letter": {Runs: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			var told []carillon.Run
			within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
				job := submit(t, l, every(time.Hour, carillon.OverlapAllow))
				run, err := l.RunNow(t.Context(), "default", job.ID, []byte(`{"n":1}`))
				if err != nil || run.Output == nil || string(run.Output.Payload) != `{"n":1}` {
					t.Fatalf("%+v, %v", run, err)
				}
				if last := told[len(told)-1]; last.ID != run.ID || last.Output != nil {
					t.Errorf("listeners are told of %+v: its payload would stay in memory", last)
				}
				runs, err := s.Runs(t.Context(), []carillon.RunID{run.ID}, false)
				if err != nil || len(runs) != 1 {
					t.Fatal(runs, err)
				}
				claimed := claim(t, l, runs[0])
				finish(t, l, claimed, carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: "no"})
				if rule.Runs != 0 {
					if n, err := s.Forget(t.Context(), rule, carillon.Now()+1000, 10); n != 1 || err != nil {
						t.Fatal(n, err)
					}
				}
				again, err := l.RetryDeadLetter(t.Context(), "default", run.ID, nil)
				if err != nil || again.RetryOf != run.ID.Due || again.Output == nil ||
					string(again.Output.Payload) != `{"n":1}` {
					t.Errorf("%+v, %v", again, err)
				}
			}, func(changes []carillon.Change) {
				for _, c := range changes {
					told = append(told, c.Runs...)
				}
			})
		})
	}
}
