package mem_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/porttest"
)

func TestCoordinator(t *testing.T) {
	porttest.Coordinator(t, func(*testing.T) carillon.Coordinator { return mem.NewCoordinator() })
}

func TestAnIDJoinsOnce(t *testing.T) {
	c := mem.NewCoordinator()
	if _, err := c.Join(t.Context(), carillon.Member{ID: "m"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Join(t.Context(), carillon.Member{ID: "m"}); !errors.Is(err, carillon.ErrConflict) {
		t.Fatal(err)
	}
}

func TestWatchHoldsTheLatestListOnly(t *testing.T) {
	c := mem.NewCoordinator()
	lists, err := c.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if _, err := c.Join(t.Context(), carillon.Member{ID: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if list := <-lists; len(list) != 100 || len(lists) != 0 {
		t.Fatalf("%d members, %d more lists", len(list), len(lists))
	}
}
