package api

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"

	"github.com/carillon-run/carillon"
)

// Config says what the API stands on. Ledger, Store and Logs must be set.
type Config struct {
	Ledger    Ledger
	Store     carillon.Store
	Logs      carillon.LogStore
	Bus       carillon.Bus          // default none: following a log then relies on its poll alone
	Tokens    map[string]Credential // by token; default none, so that every request is refused
	Retention carillon.Retention    // the server's own, shown where a job sets none; default carillon.DefaultRetention
	Replica   *Replica              // default none: lists are read from Store
	Intake    carillon.Intake       // for what was refused; default none
	Ready     func() error          // why the server cannot take jobs; joined errors are reasons of their own. Default ready
	Metrics   http.Handler          // default none: /metrics is not found

	Desk    carillon.Desk                                    // for workers that dial in; default none: they are not found
	Secret  []byte                                           // signs the tokens of attempts, the same on all nodes; default one of this API's own
	Members func(context.Context) ([]carillon.Member, error) // nodes and workers; default none
	// Alive are nodes and workers as last heard, without a read: to warn at once of a queue that no worker serves.
	// Default: no such warnings.
	Alive func() []carillon.Member
	// Holds is what members said with their last beat; default: not known.
	Holds func(ctx context.Context, ids []string) ([]carillon.Holding, error)

	Logger *slog.Logger // default discards
}

// Ledger is the one door for writes. Definitions are admitted by the caller.
type Ledger interface {
	JobLedger
	RunLedger
}

// JobLedger writes jobs. Errors wrap carillon's; a job of another namespace is not found.
type JobLedger interface {
	Submit(ctx context.Context, namespace string, defs []carillon.Definition) ([]carillon.Job, error)
	// EditJob runs edit on a copy of the present definition, more than once if another edit is quicker.
	EditJob(ctx context.Context, namespace string, id carillon.JobID, edit func(*carillon.Definition) error) (carillon.Job, error)
	CancelJob(ctx context.Context, namespace string, id carillon.JobID, keepRunning bool) (carillon.Job, error)
	PauseJob(ctx context.Context, namespace string, id carillon.JobID) (carillon.Job, error)
	ResumeJob(ctx context.Context, namespace string, id carillon.JobID) (carillon.Job, error)
	RunNow(ctx context.Context, namespace string, id carillon.JobID, payload json.RawMessage) (carillon.Run, error)
}

// RunLedger writes runs.
type RunLedger interface {
	CancelRun(ctx context.Context, namespace string, id carillon.RunID) (carillon.Run, error)
	// RetryRun adds a run that repeats a finished one; if that was a dead letter it is one no longer.
	RetryRun(ctx context.Context, namespace string, id carillon.RunID) (carillon.Run, error)
	// Redrive is RetryRun for dead letters only; anything else is not found.
	Redrive(ctx context.Context, namespace string, id carillon.RunID) (carillon.Run, error)
	// SaveCheckpoint is refused with ErrLost unless fence is that of the present attempt.
	SaveCheckpoint(ctx context.Context, namespace string, id carillon.RunID, fence int64, data []byte) error
}

// New is the API as one handler. Time limits of connections belong to the http.Server around it.
func New(c Config) http.Handler {
	c.Retention = c.Retention.Or(carillon.DefaultRetention)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Ready == nil {
		c.Ready = func() error { return nil }
	}
	s := &server{Config: c, keys: hashTokens(c.Tokens), seal: newSeal(c.Secret)}
	s.Tokens, s.Secret = nil, nil // only what is made of them stays
	s.route()
	return s.guard(http.HandlerFunc(s.dispatch))
}
