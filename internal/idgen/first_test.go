package idgen_test

import (
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/idgen"
)

// epoch is the time from which on ids count.
var epoch = carillon.TimeOf(time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC))

func TestFirstIDLiesBetweenTheIDsBeforeATimeAndThoseOfIt(t *testing.T) {
	ids := idgen.New(idgen.MaxNodes-1, carillon.Never)
	for _, now := range []carillon.Time{epoch + 2, 1_800_000_000_000, 3_000_000_000_000} {
		before, _ := ids.Next(now - 1)
		at, _ := ids.Next(now)
		if before >= idgen.First(now) || at < idgen.First(now) {
			t.Errorf("%s: %s and %s around %s", now, before, at, idgen.First(now))
		}
	}
	if idgen.First(0) != 0 || idgen.First(carillon.Never) < idgen.First(3_000_000_000_000) {
		t.Error("out of range")
	}
}

// Another process may have the number by then.
func TestWithoutALeaseOfItsNumberANodeMakesNoIDs(t *testing.T) {
	ids := idgen.New(1, epoch+100)
	if _, err := ids.Next(epoch + 99); err != nil {
		t.Error(err)
	}
	if id, err := ids.Next(epoch + 100); err == nil {
		t.Errorf("made %s when the lease had run out", id)
	}
	ids.Extend(epoch + 200)
	if _, err := ids.Next(epoch + 100); err != nil {
		t.Errorf("after it was renewed: %v", err)
	}
}

func TestTheIDsOfABlockFollowEachOther(t *testing.T) {
	ids := idgen.New(1000, carillon.Never)
	const n = 10_000 // more than a millisecond has
	first, err := ids.Block(1_900_000_000_000, n)
	if err != nil {
		t.Fatal(err)
	}
	next, err := ids.Next(1_900_000_000_000)
	if err != nil || first.Nth(n) != next {
		t.Errorf("%s follows the block that begins with %s, want %s: %v", next, first, first.Nth(n), err)
	}
	for i := range n {
		if first.Nth(i) >= first.Nth(i+1) {
			t.Fatalf("id %d of the block does not rise", i)
		}
	}
}
