// Package peer is how bench/peers drives a scheduler that it measures. Each scheduler, Carillon too, is a
// separate program. It reads commands from standard input and answers each with one line on standard output,
// both as JSON. A command means the same for all schedulers, so the scenarios are written once. bench/peers
// shows what a program prints on standard error.
//
// A program finds its store in its environment: POSTGRES (the URL of its own database), REDIS (the URL of an
// empty Redis database) and DIR (an empty directory). It ends when its standard input ends.
package peer

import (
	"context"
	"encoding/json"
	"runtime/debug"
	"time"
)

// Peer is a scheduler in this process. A method returns Cannot if the scheduler does not have the feature.
type Peer interface {
	// Hello describes the scheduler. It comes before any command.
	Hello() Hello
	// Prepare makes the schema in an empty store; it is not measured.
	Prepare(ctx context.Context) error
	// Submit submits one job, due a day ahead, and returns when that is as durable as it gets.
	Submit(ctx context.Context) error
	// Fill submits jobs in bulk, in the quickest way that users of the scheduler have.
	Fill(ctx context.Context, jobs int, job Job) error
	// Stuff puts jobs that are due a day ahead, or ended ones, into the store by any means.
	Stuff(ctx context.Context, jobs int, ended bool) error
	// Work begins to run jobs: each job tells the recorder first of all. Work returns when it has begun.
	Work(ctx context.Context, started *Recorder) error
	// Now submits one job that is due now.
	Now(ctx context.Context, job Job) error
	// Recur begins recurring jobs; they tell the recorder when they start.
	Recur(ctx context.Context, jobs int, every time.Duration) error
	// Unfinished is how many jobs in the store are due and have not ended; any number above zero will do
	// while there are some.
	Unfinished(ctx context.Context) (int, error)
}

// Holder is a peer that knows how many jobs have started in this process and are not recorded as ended yet.
// For other peers a started job counts as ended, which is in their favour.
type Holder interface{ Held() int }

// Hello is how a scheduler describes itself.
type Hello struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Engine   string `json:"engine"`   // postgres, redis, sqlite, …
	Settings string `json:"settings"` // settings that differ from the defaults, for readers of the figures
	Durable  string `json:"durable"`  // what a job survives once its submit has returned
	History  string `json:"history"`  // what is kept of a job that has ended
}

// Version is the version of a module that this program was built with.
func Version(module string) string {
	build, _ := debug.ReadBuildInfo()
	for _, m := range build.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return "unknown"
}

// Job is the beginning of a job's payload; the payload is filled up to about 200 bytes.
type Job struct {
	// Unix microseconds, from which lateness is measured. 0: due now, lateness not known.
	Due   int64 `json:"due,omitempty"`
	Sleep int   `json:"sleep,omitempty"` // milliseconds that the job takes
}

// Payload is the payload that all peers send.
func (j Job) Payload() []byte {
	b, _ := json.Marshal(struct {
		Job
		Customer string `json:"customer"`
		Subject  string `json:"subject"`
		Template string `json:"template"`
		Locale   string `json:"locale"`
		Items    []int  `json:"items"`
		Note     string `json:"note"`
	}{
		j, "c-1029384756", "Your order has been shipped", "order-shipped-v3", "en-GB",
		[]int{4711, 4712, 4713},
		"two hundred bytes is what people usually send",
	})
	return b
}

// Cannot is the answer of a scheduler that does not have the feature, with the reason.
type Cannot string

func (c Cannot) Error() string { return string(c) }
