package await_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon/internal/await"
)

func TestForEndsWithItsTimeOrItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if !await.For(ctx, time.Minute) || time.Since(began) != time.Minute {
			t.Errorf("it waited %s", time.Since(began))
		}
		if await.For(ctx, 2*time.Hour) || time.Since(began) != time.Hour {
			t.Errorf("the context has ended, and it waited %s", time.Since(began))
		}
	})
}

func TestASignalThatIsSetTwiceIsTakenOnce(t *testing.T) {
	s := await.NewSignal()
	if s.Taken() {
		t.Error("a new signal is set")
	}
	s.Set()
	s.Set()
	if !s.Taken() || s.Taken() {
		t.Error("it is not taken once")
	}
}
