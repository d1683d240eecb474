package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
	"github.com/carillon-run/carillon/internal/wire"
)

// LogQuery says which lines of a run to read.
type LogQuery struct {
	Attempt int            // only of this attempt; 0: of all, one after the other
	Follow  bool           // stay until the run (or the attempt) has ended
	Tail    int            // only the last Tail lines; 0: all
	Since   carillon.Time  // only lines printed then or later
	After   *carillon.Line // only lines after this one
}

// How long Logs tries to reconnect when it follows a log: a server that restarts is back by then.
const (
	followTries = 8
	firstPause  = 250 * time.Millisecond
	longPause   = 4 * time.Second
)

// Logs goes over the lines that a run printed, oldest first. A sequence that ends without an error is
// complete. If a connection breaks while Logs follows, Logs reconnects and goes on where it broke.
func (c *Client) Logs(ctx context.Context, id carillon.RunID, q LogQuery) iter.Seq2[carillon.Line, error] {
	return func(yield func(carillon.Line, error) bool) {
		seen := q.After
		stopped, tries, pause := false, 0, firstPause
		take := func(line carillon.Line) bool {
			if seen != nil && !isAfter(&line, seen) {
				return true
			}
			seen, tries, pause = &line, 0, firstPause
			stopped = !yield(line, nil)
			return !stopped
		}
		for {
			err := c.readLogs(ctx, id, q, seen, take)
			if stopped || err == nil {
				return
			}
			if tries++; !q.Follow || !broken(err) || tries > followTries || !await.For(ctx, pause) {
				yield(carillon.Line{}, c.failed(ctx, err))
				return
			}
			pause = min(2*pause, longPause)
		}
	}
}

func isAfter(line, other *carillon.Line) bool {
	return line.Attempt > other.Attempt || line.Attempt == other.Attempt && line.Offset > other.Offset
}

// readLogs passes each line of one answer to take as it comes, until take returns false. It does not ask for
// lines up to seen.
func (c *Client) readLogs(
	ctx context.Context, id carillon.RunID, q LogQuery, seen *carillon.Line, take func(carillon.Line) bool,
) error {
	query := url.Values{}
	if seen != nil {
		query.Set("after", fmt.Sprintf("%d:%d", seen.Attempt, seen.Offset))
	} else if q.Tail > 0 {
		query.Set("tail", strconv.Itoa(q.Tail))
	}
	if q.Since != 0 {
		query.Set("since", q.Since.String())
	}
	if q.Attempt > 0 {
		query.Set("attempt", strconv.Itoa(q.Attempt))
	}
	if q.Follow {
		query.Set("follow", "true")
	}
	header := http.Header{"Accept": {"application/json"}}
	answer, err := c.send(ctx, request{
		method: http.MethodGet, path: runPath(id) + "/logs", query: query, header: header,
	})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := wire.ReadLines(answer.Body, take); err != nil {
		return &Unreachable{URL: c.base.String(), Err: fmt.Errorf("the log broke off: %w", err)}
	}
	return nil
}

// broken says that the connection failed, or that the server will soon be back.
func broken(err error) bool {
	var away *Unreachable
	var problem *Problem
	return errors.As(err, &away) ||
		errors.As(err, &problem) && problem.Status == http.StatusServiceUnavailable
}
