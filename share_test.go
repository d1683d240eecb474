package carillon_test

import (
	"testing"

	"github.com/carillon-run/carillon"
)

func TestTheShareOfARunIsTheKeyOfItsJobAndTheWeight(t *testing.T) {
	for _, c := range []struct {
		by     string
		weight int
		share  string
		key    string
		counts int
	}{
		{"", 1, "", "", 1},
		{"", 7, "", "", 1}, // a weight without a key means nothing
		{"acme", 1, "acme", "acme", 1},
		{"acme", 3, "acme*3", "acme", 3},
		{"acme", 100, "acme*100", "acme", 100},
		{"owner", 1, "anna", "anna", 1},
		{"owner", 2, "anna*2", "anna", 2},
	} {
		job := carillon.Job{}
		job.Owner, job.FairBy, job.FairWeight = "anna", c.by, int32(c.weight)
		lane := job.Lane()
		key, weight := lane.FairShare()
		if lane.Share != c.share || key != c.key || weight != c.counts {
			t.Errorf("%q with weight %d: share %q, key %q, weight %d", c.by, c.weight, lane.Share, key, weight)
		}
		if run := carillon.NewRun(&job, epoch); run.Lane() != lane {
			t.Errorf("%q: the run is of the lane %+v, its job of %+v", c.by, run.Lane(), lane)
		}
	}
}

// Another version, or a person with a database client, may have written the row.
func TestAShareWithAWeightThatIsNoneCountsAsOne(t *testing.T) {
	for _, share := range []string{"acme*", "acme*x", "acme*0", "acme*-3"} {
		if key, weight := (&carillon.Lane{Share: share}).FairShare(); key != "acme" || weight != 1 {
			t.Errorf("%q: key %q, weight %d", share, key, weight)
		}
	}
	if _, weight := (&carillon.Lane{Share: "acme*100000"}).FairShare(); weight != 100 {
		t.Errorf("a weight of 100000 counts as %d", weight)
	}
}
