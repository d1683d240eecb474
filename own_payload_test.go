package carillon_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
)

func TestARunThatIsAskedForWithAPayloadHasItAndSoDoItsRepetitions(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapAllow))
	c, run, err := whole(job, nil).RunNow([]byte(`{"n":1}`), minute(1)+5)
	if err != nil || !run.Has(carillon.FlagOwnPayload) || string(run.Output.Payload) != `{"n":1}` {
		t.Fatalf("%+v, %v", run, err)
	}
	if last := c.Runs[len(c.Runs)-1]; last.ID != run.ID || last.Output == nil {
		t.Errorf("it is added without its payload: %+v", last)
	}
	ended := run.End(carillon.StateFailed, "", minute(2))
	ended.Flags = 0 // history keeps no flags
	ended.Output = &carillon.Output{Result: []byte("1"), Checkpoint: []byte("2"), Payload: run.Output.Payload}
	_, again, err := whole(job, nil).Retry(ended, true, minute(3)+5)
	if err != nil || !again.Has(carillon.FlagOwnPayload) || string(again.Output.Payload) != `{"n":1}` {
		t.Fatalf("the repetition: %+v, %v", again, err)
	}
	if again.Output.Result != nil || again.Output.Checkpoint != nil {
		t.Errorf("the repetition begins with what the other handed back: %+v", again.Output)
	}
}

func TestARunWithoutAPayloadOfItsOwnHasNothingBesideIt(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapAllow))
	_, run, err := whole(job, nil).RunNow(nil, minute(1)+5)
	if err != nil || run.Has(carillon.FlagOwnPayload) || run.Output != nil {
		t.Errorf("%+v, %v", run, err)
	}
	ended := run.End(carillon.StateSucceeded, "", minute(2))
	ended.Output = &carillon.Output{Result: []byte("1")}
	if _, again, err := whole(job, nil).Retry(ended, false, minute(3)+5); err != nil ||
		again.Has(carillon.FlagOwnPayload) || again.Output != nil {
		t.Errorf("the repetition: %+v, %v", again, err)
	}
}

func TestThePayloadOfARunIsHeldToTheRulesOfAJobs(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapAllow))
	for given, ok := range map[string]bool{
		`null`: true, `"text"`: true, `[1]`: true, `{`: false, `{} {}`: false,
		`"` + strings.Repeat("x", carillon.MaxPayload-2) + `"`: true,
		`"` + strings.Repeat("x", carillon.MaxPayload-1) + `"`: false,
	} {
		_, _, err := whole(job, nil).RunNow([]byte(given), minute(1)+5)
		var fault *carillon.FieldError
		if ok != (err == nil) || !ok && (!errors.As(err, &fault) || fault.Field != "payload") {
			t.Errorf("%.40s: %v", given, err)
		}
	}
}
