package wire

import "github.com/carillon-run/carillon"

// QueueSettings is what operators set for a queue.
type QueueSettings struct {
	Name   string `json:"name"`
	Weight int    `json:"weight"` // its part of the places, while other queues have due runs too
	// SetBy and SetAt say who set the weight, and when. They are left out if no operator did.
	SetBy string        `json:"set_by,omitempty"`
	SetAt carillon.Time `json:"set_at,omitzero"`
}

// WeightRequest sets the weight of a queue or a namespace.
type WeightRequest struct {
	Weight *int `json:"weight"`
}

// Namespace is what operators set for a namespace.
type Namespace struct {
	Name   string `json:"name"`
	Weight int    `json:"weight"` // its part of the places of a queue, while others have due runs too
	// SetBy and SetAt say who set the weight, and when. They are left out if no operator did.
	SetBy string        `json:"set_by,omitempty"`
	SetAt carillon.Time `json:"set_at,omitzero"`
	Limit *Limit        `json:"limit,omitempty"` // that operators set; left out if there is none
}

// Queue is a queue as it stands. Runs that are not due yet count nowhere.
type Queue struct {
	QueueSettings
	Limit *Limit `json:"limit,omitempty"` // that operators set; left out if there is none
	Gate  *Gate  `json:"gate,omitempty"`  // that pauses it, or opens after that; left out if there is none
	Depth int    `json:"depth"`           // due runs that wait for a worker
	// OldestDue is when the first of them was due, and OldestAge how long ago that is.
	OldestDue carillon.Time     `json:"oldest_due_at,omitzero"`
	OldestAge carillon.Duration `json:"oldest_age,omitzero"`
	Running   int               `json:"running"` // runs that workers hold
	Held      []HeldRuns        `json:"held"`    // due runs that wait for something else than a worker
	Paused    int               `json:"paused"`  // due runs whose job is paused
	Workers   int               `json:"workers"` // live workers that serve it
	Slots     int               `json:"slots"`   // that these have
	Counted   carillon.Time     `json:"counted_at"`
}

// HeldRuns are due runs of a queue that wait for the same thing.
type HeldRuns struct {
	By        string        `json:"by"` // for people, such as "limit of queue mail"
	Runs      int           `json:"runs"`
	OldestDue carillon.Time `json:"oldest_due_at,omitzero"`
}

// QueueDetail is a queue with the workers that serve it.
type QueueDetail struct {
	Queue
	ServedBy []QueueWorker `json:"served_by"`
}

// QueueWorker is a worker that serves a queue.
type QueueWorker struct {
	ID    string `json:"id"`
	Name  string `json:"name"`            // what it calls itself
	Slots int    `json:"slots,omitempty"` // left out if it does not tell
	// Weight is the weight that the worker itself gives the queue; left out if it gives none.
	Weight int `json:"weight,omitempty"`
}

// Limit is a limit that operators set.
type Limit struct {
	Of          carillon.LimitOf `json:"of"`
	Key         string           `json:"key"` // the name of the queue, type or namespace
	Concurrency int              `json:"concurrency,omitempty"`
	Rate        string           `json:"rate,omitempty"` // such as 10/s
	Burst       int              `json:"burst,omitempty"`
	SetBy       string           `json:"set_by,omitempty"`
	SetAt       carillon.Time    `json:"set_at,omitzero"`
}

// LimitRequest sets a limit. What is left out is not bounded.
type LimitRequest struct {
	Concurrency *int    `json:"concurrency,omitempty"`
	Rate        *string `json:"rate,omitempty"`
	Burst       *int    `json:"burst,omitempty"`
}
