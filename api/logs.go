package api

import (
	"context"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

const (
	logPage     = 1000
	logPoll     = 250 * time.Millisecond // how late a followed line may come
	logPatience = 30 * time.Second       // how long a reader may take for one page
)

func (s *server) getLogs(w http.ResponseWriter, r *http.Request, q *query) error {
	follow := q.choice("follow", "false", "true") == "true" && r.Method != http.MethodHead
	want := logQuery{
		attempt: int32(q.number("attempt", 0, math.MaxInt32)), tail: q.number("tail", 0, math.MaxInt32),
		since: q.time("since"), after: q.linePlace("after"),
	}
	if q.err != nil {
		return q.err
	}
	var events <-chan carillon.Event
	if follow {
		events = s.listen(r)
	}
	run, err := s.run(r, false)
	if err != nil {
		return err
	}
	t, err := s.newTail(w, r, run, want)
	if err != nil {
		return err
	}
	if follow {
		err = t.follow(r.Context(), events)
	} else {
		err = t.send(r.Context())
	}
	if err == nil {
		err = t.end()
	}
	if err != nil && t.begun {
		s.Logger.DebugContext(
			r.Context(), "log broken off", "request", requestID(w), "run", run.ID, "error", err,
		)
		panic(http.ErrAbortHandler) // the reader must not take a part of the log for the whole
	}
	return err
}

// listen subscribes to events of the run, so that a follower learns at once when the run ends. Without events
// the poll finds out a little later.
func (s *server) listen(r *http.Request) <-chan carillon.Event {
	id, err := carillon.ParseRunID(r.PathValue("id"))
	if s.Events == nil || err != nil {
		return nil
	}
	events, err := s.Events.Subscribe(r.Context(), carillon.EventFilter{
		Namespace: namespace(r), Job: id.Job, Run: id,
	})
	if err != nil {
		return nil
	}
	return events
}

// tail sends the lines of a run to one reader.
type tail struct {
	s       *server
	w       http.ResponseWriter
	control *http.ResponseController
	run     carillon.Run
	attempt int32 // 0: of all attempts
	since   carillon.Time
	json    bool
	begun   bool
	sent    int
	place   carillon.LogQuery // after the last line sent
}

func (s *server) newTail(
	w http.ResponseWriter, r *http.Request, run carillon.Run, want logQuery,
) (*tail, error) {
	from, err := (&seek{s.Logs, &run, want}).start(r.Context())
	if err != nil {
		return nil, err
	}
	return &tail{
		s: s, w: w, control: http.NewResponseController(w), run: run, attempt: want.attempt,
		since: want.since,
		json:  wantsJSON(r.Header.Get("Accept")),
		place: carillon.LogQuery{
			Namespace: run.Namespace, Run: run.ID, AfterAttempt: from.attempt, AfterOffset: from.offset,
			Limit: logPage,
		},
	}, nil
}

// wantsJSON goes by the first of the two types that Accept names.
func wantsJSON(accept string) bool {
	for media := range strings.SplitSeq(accept, ",") {
		media, _, _ = strings.Cut(media, ";")
		switch strings.TrimSpace(media) {
		case "application/json":
			return true
		case "text/plain":
			return false
		}
	}
	return false
}

// follow sends the lines that exist and the lines that come, until the run, or the requested attempt, is
// over.
func (t *tail) follow(ctx context.Context, events <-chan carillon.Event) error {
	poll := time.NewTicker(logPoll)
	defer poll.Stop()
	for {
		over := t.over() // before reading: by then the log has all that was printed before the end
		if err := t.send(ctx); err != nil {
			return err
		}
		if err := t.control.Flush(); err != nil || over {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case _, ok := <-events:
			if !ok {
				events = nil
			}
		case <-poll.C:
		}
		runs, err := t.s.Store.Runs(ctx, []carillon.RunID{t.run.ID}, false)
		if err != nil {
			return err
		}
		if len(runs) == 0 { // forgotten, so it ended long ago
			return nil
		}
		t.run = runs[0]
	}
}

func (t *tail) over() bool {
	run := &t.run
	attemptOver := run.Attempt > t.attempt || run.Attempt == t.attempt && run.State == carillon.StateWaiting
	return run.State.Ended() || t.attempt != 0 && attemptOver
}

// send writes the lines after the last one sent.
func (t *tail) send(ctx context.Context) error {
	for {
		lines, err := t.s.Logs.Read(ctx, t.place)
		if err != nil {
			return err
		}
		if err := t.begin(); err != nil {
			return err
		}
		for _, line := range lines {
			if t.attempt != 0 && line.Attempt != t.attempt {
				return nil
			}
			if line.At >= t.since {
				if err := t.write(line); err != nil {
					return err
				}
			}
			t.place.AfterAttempt, t.place.AfterOffset = line.Attempt, line.Offset
		}
		if len(lines) < t.place.Limit {
			return nil
		}
	}
}

func (t *tail) begin() error {
	// The server's own limit would cut off a follower. Without any limit, a reader that stopped reading would
	// keep its connection for ever.
	_ = t.control.SetWriteDeadline(time.Now().Add(logPatience))
	if t.begun {
		return nil
	}
	t.begun = true
	media, first := "text/plain; charset=utf-8", ""
	if t.json {
		media, first = "application/json", wire.LinesBegin
	}
	t.w.Header().Set("Content-Type", media)
	t.w.WriteHeader(http.StatusOK)
	_, err := t.w.Write([]byte(first))
	return err
}

func (t *tail) write(line carillon.Line) error {
	text := append([]byte(line.Text), '\n')
	if t.json {
		var err error
		if text, err = wire.AppendLine(nil, &line, t.sent == 0); err != nil {
			return err
		}
	}
	t.sent++
	_, err := t.w.Write(text)
	return err
}

func (t *tail) end() error {
	if !t.json {
		return nil
	}
	_, err := t.w.Write([]byte(wire.LinesEnd))
	return err
}
