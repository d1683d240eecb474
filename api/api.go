package api

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/catalog"
	"github.com/carillon-run/carillon/worker/protocol"
)

// Config holds the parts that the API uses. Ledger, Store and Logs must be set.
type Config struct {
	Ledger    Ledger
	Store     carillon.Store
	Logs      carillon.LogStore
	Clock     *carillon.Clock       // default this machine's
	Events    Events                // default none: a follower of a log then relies on the poll alone
	Tokens    map[string]Credential // by token; default none: every route that needs a token refuses
	Retention carillon.Retention    // the server's, for jobs that set none; default carillon.DefaultRetention
	Replica   *Replica              // default none: lists are read from Store
	Intake    carillon.Intake       // lists refused submissions; default none
	Ready     func() error          // why the server cannot take jobs, joined if several; default ready
	Metrics   http.Handler          // default none: /metrics is not found

	// Dispatcher serves workers that dial in. Default none: their routes are not found.
	Dispatcher protocol.Dispatcher
	// Secret signs the tokens of attempts. It must be the same on all nodes. Default: this API generates one.
	Secret []byte
	// Members returns nodes and workers, and what they hold: see carillon.Coordinator. Default none.
	Members func(context.Context, carillon.MemberQuery) ([]carillon.Member, carillon.Time, error)
	// Alive returns the nodes and workers as last heard, without a read. The API uses it to warn at once of a
	// queue that no worker serves. Default: no such warnings.
	Alive func() []carillon.Member
	// Catalog has the weights of queues and the limits of operators. Default none: they cannot be set.
	Catalog *catalog.Catalog
	// Overloaded is called for each request that is refused because too many jobs wait for the store. It must
	// be quick. Default: nothing.
	Overloaded func()
	// Refuser takes over connections whose submits are refused because of overload. The http.Server of the
	// API must serve it too, and wait for it when it stops. It passes by handlers around the API. Default
	// none: net/http answers all requests.
	Refuser *Refuser

	Logger *slog.Logger // default discards
}

// Events is the part of carillon.Bus that the API uses.
type Events interface {
	Subscribe(ctx context.Context, filter carillon.EventFilter) (<-chan carillon.Event, error)
}

// Ledger is the one door for writes. The caller admits definitions before it passes them on. A write whose
// context carries an idempotency key can return the errors of Used: see carillon.Once.
type Ledger interface {
	JobLedger
	RunLedger
	WorkflowLedger
	OperationLedger
}

// JobLedger writes jobs. Errors wrap carillon's; a job of another namespace is not found.
type JobLedger interface {
	Submit(ctx context.Context, namespace string, defs []carillon.Definition) ([]carillon.Job, error)
	// Used returns a *carillon.RepeatedError or a *carillon.KeyReusedError if the idempotency key that the
	// context carries was used before.
	Used(ctx context.Context, namespace string) error
	// Wait is how long a job that is submitted now will probably wait until it is on disk.
	Wait(now time.Time) time.Duration
	// EditJob runs edit on a copy of the present definition. It runs edit again if another edit is quicker.
	EditJob(
		ctx context.Context, namespace string, id carillon.JobID, edit func(*carillon.Definition) error,
	) (carillon.Job, error)
	CancelJob(
		ctx context.Context, namespace string, id carillon.JobID, keepRunning bool,
	) (carillon.Job, error)
	PauseJob(ctx context.Context, namespace string, id carillon.JobID) (carillon.Job, error)
	ResumeJob(ctx context.Context, namespace string, id carillon.JobID) (carillon.Job, error)
	RunNow(
		ctx context.Context, namespace string, id carillon.JobID, payload json.RawMessage,
	) (carillon.Run, error)
}

// RunLedger writes runs, and reads what decisions about them are based on.
type RunLedger interface {
	// Candidates returns runs with what a decision about them needs. Without a worker that includes the
	// guards of limits.
	Candidates(ctx context.Context, runs []carillon.Run, worker string) ([]carillon.Candidate, error)
	CancelRun(ctx context.Context, namespace string, id carillon.RunID) (carillon.Run, error)
	// RetryRun adds a run that repeats an ended one. A repeated dead letter is no dead letter any more.
	RetryRun(ctx context.Context, namespace string, id carillon.RunID) (carillon.Run, error)
	// RetryDeadLetter is RetryRun for dead letters only; anything else is not found.
	// A payload that is not nil takes the place of the one that the letter had.
	RetryDeadLetter(
		ctx context.Context, namespace string, id carillon.RunID, payload json.RawMessage,
	) (carillon.Run, error)
	// SaveCheckpoint returns ErrLost unless fence is the fence of the present attempt.
	SaveCheckpoint(ctx context.Context, namespace string, id carillon.RunID, fence int64, data []byte) error
}

// WorkflowLedger writes runs of workflows.
type WorkflowLedger interface {
	Signal(
		ctx context.Context, namespace string, id carillon.RunID, name string, payload json.RawMessage,
	) (carillon.Run, error)
	RetryNode(ctx context.Context, namespace string, id carillon.RunID, name string) (carillon.Run, error)
	SkipNode(ctx context.Context, namespace string, id carillon.RunID, name string) (carillon.Run, error)
	// ResumeRun adds a run that goes on where one that did not succeed ended.
	ResumeRun(ctx context.Context, namespace string, id carillon.RunID) (carillon.Run, error)
}

// OperationLedger writes operations. Both fill in op before they make the answer of an idempotency key.
type OperationLedger interface {
	StartOperation(ctx context.Context, op *carillon.Operation) error
	// CancelOperation ends the operation whose namespace and id op gives.
	CancelOperation(ctx context.Context, op *carillon.Operation) error
}

// New returns the API as one handler. Time limits of connections belong to the http.Server around it.
func New(c Config) http.Handler {
	c.Retention = c.Retention.Or(carillon.DefaultRetention)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Ready == nil {
		c.Ready = func() error { return nil }
	}
	if c.Overloaded == nil {
		c.Overloaded = func() {}
	}
	s := &server{Config: c, keys: hashTokens(c.Tokens), seal: newSeal(c.Secret)}
	s.Tokens, s.Secret = nil, nil // the server keeps only what it derived from them
	s.route()
	return s.guard(http.HandlerFunc(s.dispatch))
}
