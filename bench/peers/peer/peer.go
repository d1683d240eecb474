// Package peer is how bench/peers drives a scheduler that it measures. Each scheduler, Carillon too, is a program of its own
// that reads commands from standard input and answers each with one line on standard output, both JSON. What a command
// means is the same for all, so the scenarios are written once; what is printed on standard error is shown.
//
// A program finds what it works on in its environment: POSTGRES (the URL of a database of its own), REDIS (the URL of an
// empty Redis database) and DIR (an empty directory). It ends when its standard input does.
package peer

import (
	"context"
	"encoding/json"
	"runtime/debug"
	"time"
)

// Peer is a scheduler in this process. A method returns Cannot for what it does not have.
type Peer interface {
	// Hello says what it is, before anything else is asked.
	Hello() Hello
	// Prepare makes its schema in an empty store; nothing is measured yet.
	Prepare(ctx context.Context) error
	// Submit hands in one job, due a day ahead, and returns when that is as durable as it gets.
	Submit(ctx context.Context) error
	// Fill hands in jobs in bulk, by the quickest way that its users have.
	Fill(ctx context.Context, jobs int, job Job) error
	// Stuff puts jobs that are due a day ahead, or ended ones, into the store by any means at all.
	Stuff(ctx context.Context, jobs int, ended bool) error
	// Work begins to run jobs: each tells the recorder first thing. It returns when it has begun.
	Work(ctx context.Context, started *Recorder) error
	// Now hands in one job that is due now.
	Now(ctx context.Context, job Job) error
	// Recur begins recurring jobs; they tell the recorder when they start.
	Recur(ctx context.Context, jobs int, every time.Duration) error
	// Unfinished is how many jobs in the store are due and have not ended, or some number above zero while there are any.
	Unfinished(ctx context.Context) (int, error)
}

// Holder is a peer that knows how many jobs have started in this process and are not recorded as ended yet. Where it does not,
// what has started is taken for ended, in its favour.
type Holder interface{ Held() int }

// Hello is what a scheduler says of itself.
type Hello struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Engine   string `json:"engine"`   // postgres, redis, sqlite, …
	Settings string `json:"settings"` // what was set, for the reader of the figures
	Durable  string `json:"durable"`  // what a submit that has returned survives
	History  string `json:"history"`  // what is kept of a job that has ended
}

// Version is that of a module that this program was built with.
func Version(module string) string {
	build, _ := debug.ReadBuildInfo()
	for _, m := range build.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return "unknown"
}

// Job is what the payload of a job begins with; the payload is filled up to about 200 bytes.
type Job struct {
	Due   int64 `json:"due,omitempty"`   // unix microseconds; lateness is measured from here. 0: due now, lateness unknown
	Sleep int   `json:"sleep,omitempty"` // milliseconds that the job takes
}

// Payload is a job's, as all peers send it.
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

// Cannot is the answer of a scheduler that does not have what was asked for, and why.
type Cannot string

func (c Cannot) Error() string { return string(c) }
