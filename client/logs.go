package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/carillon-run/carillon"
)

// LogQuery says which lines of a run to read.
type LogQuery struct {
	Attempt int  // only of this one; 0: of all, one after the other
	Follow  bool // stay until the run (or the attempt) has ended
}

// How long following a log outlives its connection: a server that restarts is back by then.
const (
	followTries = 8
	firstPause  = 250 * time.Millisecond
	longPause   = 4 * time.Second
)

// Logs goes over what a run printed, oldest first. A sequence that ends without an error is complete. When following, a
// connection that breaks is made again and goes on where it broke.
func (c *Client) Logs(ctx context.Context, id carillon.RunID, q LogQuery) iter.Seq2[carillon.Line, error] {
	return func(yield func(carillon.Line, error) bool) {
		var seen, here position
		stopped, tries, pause := false, 0, firstPause
		take := func(line carillon.Line) bool {
			if here = here.after(line); !seen.before(here) {
				return true
			}
			seen, tries, pause = here, 0, firstPause
			stopped = !yield(line, nil)
			return !stopped
		}
		for {
			here = position{}
			err := c.readLogs(ctx, id, q, take)
			if stopped || err == nil {
				return
			}
			if tries++; !q.Follow || !broken(err) || tries > followTries || !sleep(ctx, pause) {
				yield(carillon.Line{}, c.failed(ctx, err))
				return
			}
			pause = min(2*pause, longPause)
		}
	}
}

// position is a place in a log: so many lines of an attempt, and all of those before. It is counted by attempt because a
// server that crashed may have lost the last lines of one, but not of the next.
type position struct {
	attempt int32
	lines   int
}

func (p position) after(line carillon.Line) position {
	if line.Attempt != p.attempt {
		return position{line.Attempt, 1}
	}
	return position{p.attempt, p.lines + 1}
}

func (p position) before(o position) bool {
	return p.attempt < o.attempt || p.attempt == o.attempt && p.lines < o.lines
}

// readLogs hands each line of one answer to take as it comes, until that returns false.
func (c *Client) readLogs(ctx context.Context, id carillon.RunID, q LogQuery, take func(carillon.Line) bool) error {
	query := url.Values{}
	if q.Attempt > 0 {
		query.Set("attempt", strconv.Itoa(q.Attempt))
	}
	if q.Follow {
		query.Set("follow", "true")
	}
	header := http.Header{"Accept": {"application/json"}}
	answer, err := c.send(ctx, request{method: http.MethodGet, path: runPath(id) + "/logs", query: query, header: header})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := readItems(json.NewDecoder(answer.Body), take); err != nil {
		return &Unreachable{URL: c.base.String(), Err: fmt.Errorf("the log broke off: %w", err)}
	}
	return nil
}

// readItems reads {"items":[…]} piece by piece.
func readItems(dec *json.Decoder, take func(carillon.Line) bool) error {
	for _, want := range []json.Token{json.Delim('{'), "items", json.Delim('[')} {
		token, err := dec.Token()
		if err != nil {
			return atEnd(err)
		}
		if token != want {
			return fmt.Errorf("want %v, not %v", want, token)
		}
	}
	for dec.More() {
		var line carillon.Line
		if err := dec.Decode(&line); err != nil {
			return atEnd(err)
		}
		if !take(line) {
			return nil
		}
	}
	_, err := dec.Token() // the closing bracket: without it something is missing
	return atEnd(err)
}

// atEnd makes an end in the middle an error; encoding/json calls some of them a plain EOF.
func atEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// broken says that it was the connection, or a server that is about to be back.
func broken(err error) bool {
	var away *Unreachable
	var problem *Problem
	return errors.As(err, &away) || errors.As(err, &problem) && problem.Status == http.StatusServiceUnavailable
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
