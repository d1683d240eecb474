package wire

import "github.com/carillon-run/carillon/internal/jobjson"

// The limits of one message. A worker with more to say sends another message.
const (
	MaxBody      = 1 << 20  // of a request
	MaxJobBody   = 9 << 20  // of a submit: a workflow has up to 8 MiB, beside what other jobs have
	MaxLargeBody = 16 << 20 // of a batch of jobs, or of a worker's message
	MaxPage      = 1000     // items in one page of a list
	MaxBatch     = jobjson.MaxBatch
	MaxPull      = 1000   // tasks in the answer to a pull
	MaxReports   = 10_000 // in one message
)

// Headers that Carillon gives a meaning.
const (
	FenceHeader   = "Carillon-Fence"   // of the attempt that saves a checkpoint
	WarningHeader = "Carillon-Warning" // what can be wrong with a job that was accepted
	RequestHeader = "X-Request-Id"     // finds the request in the server's log
	// IdempotencyHeader names a request that changes something, so that it takes effect once.
	IdempotencyHeader = "Idempotency-Key"
)
