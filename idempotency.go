package carillon

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// IdempotencyTime is how long an idempotency key is in force after its first use.
const IdempotencyTime = 24 * time.Hour

const maxIdempotencyKey = 255

// Once is a write that takes effect once, however often its caller sends it: the caller gave it an
// idempotency key. The change that performs the write also writes a guard for the key. So of two writes with
// the same key one loses, on whichever nodes they are, and its caller gets the answer of the other one. Only
// writes that were performed are remembered: one that was refused has changed nothing and can be sent again.
//
// Its Context carries it to the ledger.
type Once struct {
	// Request is a hash of all that the request says. The same key with another hash is refused.
	Request string
	// At is the time of a submit, at which its definitions were admitted.
	At Time
	// Answer makes the answer from what the write made of the job and, if the write is about a run, of that
	// run. The guard keeps the answer. A submit needs none: see Use.Submitted.
	Answer func(job *Job, run *Run) (json.RawMessage, error)

	key string // of the guard
}

// NewOnce checks the key that a caller has chosen. field is what the caller knows the key as.
func NewOnce(field, key string) (*Once, error) {
	outside := func(r rune) bool { return r < ' ' || r > '~' }
	if key == "" || len(key) > maxIdempotencyKey || strings.TrimSpace(key) != key ||
		strings.IndexFunc(key, outside) >= 0 {
		err := invalid(
			field, key, "1 to %d printable ASCII characters, without a space at either end",
			maxIdempotencyKey,
		)
		if len(key) > maxIdempotencyKey {
			err = err.because("it has %d characters", len(key))
		}
		return nil, err
	}
	// Not a hash of the key: keys that begin with the time, as those of package client do, are neighbours in
	// the store. A submit with a random key writes to a page of its own, which costs an engine much more.
	return &Once{key: string(GuardIdempotency) + "/" + key}, nil
}

type onceKey struct{}

// Context returns a context for the calls that perform the write.
func (o *Once) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, onceKey{}, o)
}

// OnceOf returns what Once.Context added; nil for a write without an idempotency key.
func OnceOf(ctx context.Context) *Once {
	once, _ := ctx.Value(onceKey{}).(*Once)
	return once
}

// Key is the key of the guard.
func (o *Once) Key() string { return o.key }

// Use is the value of the guard: what an idempotency key was used for.
type Use struct {
	Request string          `json:"request"`
	At      Time            `json:"at"`
	Jobs    []JobID         `json:"jobs,omitempty"`   // the answer to a submit
	Found   []UsedJob       `json:"found,omitempty"`  // of these, those that do not follow from the request
	Answer  json.RawMessage `json:"answer,omitempty"` // to any other write
}

// UsedJob is a job in the answer to a submit that does not follow from the request alone: it existed before,
// or another job of the request has the same unique key.
type UsedJob struct {
	Index    int      `json:"index"` // in Use.Jobs
	Version  int32    `json:"version"`
	State    JobState `json:"state"`
	Created  Time     `json:"created"`
	Updated  Time     `json:"updated"`
	Existing bool     `json:"existing,omitempty"`
}

// Guard is the guard that remembers a use of the key from now on. was is the guard of an earlier use that has
// expired; its Rev is 0 if there is none.
func (o *Once) Guard(was Guard, use Use, now Time) Guard {
	use.Request = o.Request
	was.Value, _ = json.Marshal(use) // of text and numbers
	was.Key, was.Expires = o.key, now.Add(IdempotencyTime)
	return was
}

// Used returns nil if the key is free. Otherwise it returns a *RepeatedError for the request that the key was
// used for, and a *KeyReusedError for every other request. guard is nil if there is none. Any other error
// says that it cannot be told now, and the caller should try again.
func (o *Once) Used(guard *Guard, now Time) error {
	switch {
	case guard == nil || guard.Free(now):
		return nil
	case guard.Expired(now):
		return fmt.Errorf(
			"the guard of the idempotency key expired at %s and is about to be removed; try again",
			guard.Expires,
		)
	}
	var use Use
	if err := json.Unmarshal(guard.Value, &use); err != nil {
		return fmt.Errorf("the guard %s does not say what its key was used for", guard.Key)
	}
	if use.Request != o.Request {
		return &KeyReusedError{At: use.At}
	}
	return &RepeatedError{Use: use}
}

// FoundJobs are the versions of jobs that Submitted needs.
func (u *Use) FoundJobs() (ids []JobVersion) {
	for _, found := range u.Found {
		if found.Index < len(u.Jobs) {
			ids = append(ids, JobVersion{u.Jobs[found.Index], found.Version})
		}
	}
	return ids
}

// Submitted returns the jobs as the first request was answered. The repeated request has brought their
// definitions again, which the caller has admitted at use.At. So no answer has to be kept, and it does not
// matter what has become of the jobs. stored are the jobs of Found, at their versions; one that is no longer
// stored gets the definition that the request has for it.
func (u *Use) Submitted(namespace string, defs []Definition, stored []Job) []Job {
	jobs := make([]Job, min(len(defs), len(u.Jobs)))
	for i := range jobs {
		jobs[i] = Job{Namespace: namespace, ID: u.Jobs[i], Definition: defs[i]}
		Submit(&jobs[i], u.At)
	}
	for _, found := range u.Found {
		if found.Index >= len(jobs) {
			continue
		}
		job := &jobs[found.Index]
		for k := range stored {
			if stored[k].ID == job.ID && stored[k].Version == found.Version {
				job.Definition = stored[k].Definition
			}
		}
		job.Version, job.State, job.Existing = found.Version, found.State, found.Existing
		job.Created, job.Updated = found.Created, found.Updated
	}
	return jobs
}

// RepeatedError says that a request was performed before, and how.
type RepeatedError struct{ Use Use }

func (e *RepeatedError) Error() string { return "the request was performed at " + e.Use.At.String() }

// KeyReusedError says that an idempotency key belongs to another request.
type KeyReusedError struct{ At Time }

func (e *KeyReusedError) Error() string {
	return fmt.Sprintf("the key was used at %s for another request; give each request its own key, and "+
		"repeat a request unchanged", e.At)
}

func (e *KeyReusedError) Is(target error) bool { return target == ErrInvalid }
