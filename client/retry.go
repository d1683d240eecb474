package client

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	mathrand "math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-run/carillon/internal/await"
	"github.com/carillon-run/carillon/internal/wire"
)

// How long a write waits before it is sent again: firstWait, then waitFactor times as long each time, and up
// to half as much again, so that callers do not come back all at once.
const (
	firstWait  = 100 * time.Millisecond
	waitFactor = 3
)

// leastTry is the least time that a try has for its answer, if other tries can follow.
const leastTry = 10 * time.Second

type idempotencyKey struct{}

// WithIdempotencyKey returns a context for one write whose idempotency key the caller chooses, for example
// because it has stored the key, and will send the write again with the same key after a crash of its own.
// The server performs the writes that have a key once within 24 hours, and refuses the key with another
// request (ErrInvalid). Without this, each call has its own key, made by NewIdempotencyKey.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, idempotencyKey{}, key)
}

// NewIdempotencyKey returns a key that no other write has, for WithIdempotencyKey. It begins with the time,
// so that keys of the same moment are neighbours in the store: that costs the store much less than random
// ones.
func NewIdempotencyKey() string { return newKey(time.Now()) }

func newKey(now time.Time) string { return strconv.FormatInt(now.UnixMilli(), 16) + "-" + rand.Text() }

// write performs a call that changes something. It sends the call again if that can help: see the comment of
// the package.
func (c *Client) write(ctx context.Context, r request, out any) error {
	key, given := ctx.Value(idempotencyKey{}).(string)
	if !given && c.tries > 1 {
		key, given = NewIdempotencyKey(), true
	}
	if given {
		if r.header == nil {
			r.header = http.Header{}
		}
		r.header[wire.IdempotencyHeader] = []string{key}
	}
	if c.tries == 1 {
		return c.call(ctx, r, out)
	}
	ctx, cancel := within(ctx, c.timeout)
	defer cancel()
	var doubt error // why an earlier try may have been performed
	for try, wait := 1, firstWait; ; try, wait = try+1, wait*waitFactor {
		err := c.try(ctx, r, out, try == c.tries)
		if err == nil || try == c.tries || ctx.Err() != nil || !again(err) {
			return outcome(err, doubt)
		}
		pause := wait + time.Duration(mathrand.Int64N(int64(wait)/2))
		var problem *Problem
		if errors.As(err, &problem) {
			pause = max(pause, problem.RetryAfter)
		}
		if end, bounded := ctx.Deadline(); bounded && time.Until(end) <= pause || !c.retrying(err, pause) {
			return outcome(err, doubt)
		}
		if doubtful(err) {
			doubt = err
		}
		if !await.For(ctx, pause) {
			return c.failed(ctx, err)
		}
	}
}

// try sends a call once. It leaves half of the time to later tries, because a server that is gone may not
// even refuse the connection. If half of the time is less than leastTry, it takes all of it: otherwise a slow
// server could answer none of the tries.
func (c *Client) try(ctx context.Context, r request, out any, last bool) error {
	if end, bounded := ctx.Deadline(); bounded && !last {
		if half := time.Until(end) / 2; half >= leastTry {
			var cancel context.CancelFunc
			ctx, cancel = within(ctx, half)
			defer cancel()
		}
	}
	return c.perform(ctx, r, out)
}

// again says that a write can be sent again: there was no answer, or a part of one, or none of the server
// itself, or the server asks for it.
func again(err error) bool {
	var problem *Problem
	var away *Unreachable
	var cut *cutError
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &problem):
		switch problem.Status {
		case http.StatusTooManyRequests:
			return problem.RetryAfter > 0
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	case errors.As(err, &untrusted):
		return false
	case errors.As(err, &away):
		return true
	}
	return errors.As(err, &cut)
}

// outcome is the error of a write whose last try ended with err. A refusal that says nothing of an earlier
// try must not look as if the write was not performed.
func outcome(err, doubt error) error {
	if err == nil || doubt == nil || doubtful(err) || aboutAllTries(err) {
		return err
	}
	return &UnknownOutcome{Last: err, Earlier: doubt}
}

// doubtful says that the server may have performed the try that ended with err.
func doubtful(err error) bool {
	var problem *Problem
	var away *Unreachable
	switch {
	case errors.As(err, &problem):
		return problem.Status >= http.StatusInternalServerError
	case errors.As(err, &away):
		return !away.NotSent()
	}
	return true
}

// aboutAllTries says that the server refuses the write whenever it comes, or has looked for its key before
// it refused the last try. It does neither if it has too many jobs, or if the token is no longer valid. An
// answer of something between the client and the server says nothing about earlier tries.
func aboutAllTries(err error) bool {
	var problem *Problem
	return errors.As(err, &problem) && strings.HasPrefix(problem.Type, wire.ProblemPrefix) &&
		problem.Status != http.StatusTooManyRequests && problem.Status != http.StatusUnauthorized
}
