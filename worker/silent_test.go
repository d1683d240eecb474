package worker_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon/worker"
	"github.com/carillon-run/carillon/worker/protocol"
)

// unreachable is the connection to a dispatcher that does not exist.
type unreachable struct{ protocol.Dispatcher }

func (unreachable) Register(context.Context, protocol.Registration) (string, error) {
	return "", errInjected
}

func TestAWorkerThatReachesNoServerSaysSoEveryMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		began := time.Now()
		w := worker.New(worker.Config{
			Dispatcher: unreachable{}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Boottime: func() time.Duration { return time.Since(began) },
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+30*time.Second)
		defer cancel()
		if err := w.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), errInjected.Error()); n != 6 {
			t.Errorf("said %d times in five and a half minutes:\n%s", n, log.String())
		}
	})
}
