package postgres

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/porttest"
)

func TestNamesComeBackAsTheyWerePacked(t *testing.T) {
	rnd := rand.New(rand.NewPCG(uint64(porttest.Seed(t)), 0))
	for range 200 {
		names := []name{
			{"", carillon.RunID{Job: math.MaxInt64, Due: math.MaxInt64}}, {"default", carillon.RunID{Job: 1}},
		}
		for range rnd.IntN(100) {
			names = append(names, name{[]string{"a", "b", "ä"}[rnd.IntN(3)], carillon.RunID{
				Job: carillon.JobID(rnd.Int64N(1 << rnd.IntN(63))),
				Due: carillon.Time(rnd.Int64N(1 << rnd.IntN(50))),
			}})
		}
		payload, ok := packNames("123456789012", names)
		sender, got, err := unpackNames(payload)
		if !ok || err != nil || sender != "123456789012" || !slices.Equal(got, names) { // sorted in place
			t.Fatalf("%v %v %s:\n%v\n%v", ok, err, sender, names, got)
		}
	}
}

func TestAPayloadHasRoomForHundredsOfNames(t *testing.T) {
	ids, now := idgen.New(3, carillon.Never), carillon.Time(1_800_000_000_000)
	var names []name
	for i := range maxNames {
		id, err := ids.Next(now + carillon.Time(i/4)) // four thousand jobs a second
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name{"default", carillon.RunID{Job: id, Due: now + carillon.Time(i/4)}})
		if i%25 != 0 {
			continue
		}
		if payload, ok := packNames("123456789012", names); !ok {
			if len(payload) > maxPayload+25*20 || i < 900 {
				t.Errorf("%d names are %d bytes", i, len(payload))
			}
			return
		}
	}
	t.Error("there is room for more names than are remembered")
}

func TestAPayloadOfAnotherProgramIsAnError(t *testing.T) {
	for _, payload := range []string{
		"", "short", "123456789012!", "123456789012/w", "123456789012AQ", "123456789012BWRlZmF1bHQ",
	} {
		if _, _, err := unpackNames(payload); !errors.Is(err, errPayload) {
			t.Errorf("%q: %v", payload, err)
		}
	}
}
