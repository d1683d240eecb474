package sqlcommon

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// plainSpecs are specs that onlyLimits reads.
var plainSpecs = [][]carillon.Limit{
	{{Key: "customer-123", Concurrency: 10, Weight: 1}},
	{{Key: "a/b@c._-", Rate: carillon.Rate{Starts: 10, Per: time.Second}, Burst: 7, Weight: 3}},
	{
		{Key: "a", Concurrency: 1_000_000, Weight: 1_000_000},
		{Key: "b", Concurrency: 1, Rate: carillon.Rate{Starts: 1_000_000, Per: time.Hour}, Burst: 1, Weight: 1},
	},
	{{Key: "without a default"}},
}

func TestSpecsThatHaveOnlyLimitsAreReadWithoutJSON(t *testing.T) {
	for _, limits := range plainSpecs {
		d := usual
		d.Limits, d.Target.Handler = limits, &carillon.Handler{}
		b, err := Encode(&d, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := onlyLimits(b); !ok || !reflect.DeepEqual(got, limits) {
			t.Errorf("%s is read as %+v, %t", b, got, ok)
		}
	}
}

// What onlyLimits reads, encoding/json reads in the same way.
func FuzzOnlyLimits(f *testing.F) {
	for _, limits := range plainSpecs {
		b, err := json.Marshal(&spec{Limits: limits})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, b := range []string{
		`{}`, `{"limits":[]}`, `{"limits":[{"key":"a"},]}`, `{"limits":[{"key":"a"}],"queue":"q"}`,
		`{"limits":[{"key":"a"}]}}`, `{"limits":[{"key":"a\u0062"}]}`, `{"limits":[{"key":"ä"}]}`,
		`{"limits":[{"key":"a","weight":01}]}`, `{"limits":[{"key":"a","weight":12345678901234567890}]}`,
		`{"limits":[{"key":"a","weight":-1}]}`, `{"limits":[{"key":"a","weight":1e3}]}`,
		`{"limits":[{"key":"a","rate":"1/d"}]}`, `{"limits":[{"key":"a","rate":""}]}`, `{"limits":[{"key":"a`,
	} {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		limits, ok := onlyLimits(b)
		if !ok {
			return
		}
		var want spec
		if err := json.Unmarshal(b, &want); err != nil || !reflect.DeepEqual(want, spec{Limits: limits}) {
			t.Errorf("%q is read as %+v, want %+v (%v)", b, limits, want, err)
		}
	})
}
