package porttest

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
)

func TestWrappers(t *testing.T) {
	put := func(s carillon.Store, key string) error {
		_, err := s.Commit(context.Background(), []carillon.Change{
			{Guards: []carillon.Guard{{Namespace: "a", Key: key, Value: []byte("v")}}},
		})
		return err
	}
	keys := func(s carillon.Store) (all string) {
		guards, err := s.Guards(context.Background(), carillon.GuardQuery{Namespace: "a"})
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range guards {
			all += g.Key
		}
		return all
	}
	t.Run("the nth call fails and does nothing", func(t *testing.T) {
		s := Failing(mem.NewStore(), "Commit", 2)
		errs := []error{put(s, "x"), put(s, "y"), put(s, "z")}
		same(t, "errors", []bool{errs[0] != nil, errors.Is(errs[1], ErrInjected), errs[2] != nil}, []bool{
			false, true, false,
		})
		same(t, "stored", keys(s), "xz")
		same(t, "calls", s.Calls("Commit"), 3)
	})
	t.Run("the nth call does its work and fails", func(t *testing.T) {
		s := Unknown(mem.NewStore(), "Commit", 1, 3)
		errs := []error{put(s, "x"), put(s, "y"), put(s, "z")}
		same(
			t, "errors",
			[]bool{errors.Is(errs[0], ErrInjected), errs[1] != nil, errors.Is(errs[2], ErrInjected)},
			[]bool{true, false, true},
		)
		same(t, "stored", keys(s), "xyz")
	})
	t.Run("a share of the calls fails, done or not", func(t *testing.T) {
		store := mem.NewStore()
		s := Lossy(store, rand.New(rand.NewPCG(1, 2)), 0.5)
		failed := 0
		for i := range 400 {
			if put(s, string(rune('a'+i))) != nil {
				failed++
			}
		}
		stored := len([]rune(keys(store)))
		if failed < 150 || failed > 250 || stored < 250 || stored > 350 {
			t.Errorf("%d of 400 failed, %d are stored", failed, stored)
		}
	})
	t.Run("a method that a store does not have is a mistake", func(t *testing.T) {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		Failing(mem.NewStore(), "Comit", 1)
	})
}
