package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

// Command is one line that a program reads.
type Command struct {
	Do      string  `json:"do"` // prepare submit fill stuff work count await pickup recur
	Jobs    int     `json:"jobs,omitempty"`
	Clients int     `json:"clients,omitempty"` // submit
	Seconds float64 `json:"seconds,omitempty"` // how long to submit, or to wait at most
	Gap     int     `json:"gap,omitempty"`     // pickup: milliseconds between two jobs
	Every   float64 `json:"every,omitempty"`   // recur: seconds
	Ended   bool    `json:"ended,omitempty"`   // stuff
	Ends    bool    `json:"ends,omitempty"`    // count: jobs whose ends are recorded, if the peer knows
	// Store is for await: until the store has no due job, no matter which process ran them.
	Store bool `json:"store,omitempty"`
	// Allocs is for count: allocations of this process too, if the program knows them.
	Allocs bool `json:"allocs,omitempty"`
	Job    Job  `json:"job,omitzero"`
}

// Answer is the line that answers a command.
type Answer struct {
	Hello   *Hello  `json:"hello,omitempty"` // the first line, without a command
	Jobs    int     `json:"jobs,omitempty"`  // submitted, or started in this process since it works
	Seconds float64 `json:"seconds,omitempty"`
	At      int64   `json:"at,omitempty"`   // await: unix microseconds of the end
	Over    bool    `json:"over,omitempty"` // await: the time was over before that
	// Late is starts relative to due times; for pickup relative to the call that submitted.
	Late   Times  `json:"late,omitzero"`
	Allocs uint64 `json:"allocs,omitempty"`
	Cannot string `json:"cannot,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Serve answers commands until there are no more. Then it closes a peer that is an io.Closer, like a program
// that is stopped in good order.
func Serve(p Peer) {
	out := json.NewEncoder(os.Stdout)
	hello := p.Hello()
	_ = out.Encode(Answer{Hello: &hello})
	s := server{peer: p, started: &Recorder{}}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var c Command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			fmt.Fprintln(os.Stderr, "not a command:", lines.Text(), err)
			os.Exit(1)
		}
		a, err := s.do(context.Background(), c)
		var cannot Cannot
		switch {
		case errors.As(err, &cannot):
			a = Answer{Cannot: string(cannot)}
		case err != nil:
			a = Answer{Error: fmt.Sprintf("%s: %v", c.Do, err)}
		}
		_ = out.Encode(a)
	}
	if c, ok := p.(io.Closer); ok {
		if err := c.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "close:", err)
			os.Exit(1)
		}
	}
	os.Exit(0) // jobs that still run end here, as with a kill
}

type server struct {
	peer    Peer
	started *Recorder
}

func (s *server) do(ctx context.Context, c Command) (Answer, error) {
	begin := time.Now()
	var err error
	switch c.Do {
	case "prepare":
		err = s.peer.Prepare(ctx)
	case "submit":
		return s.submit(ctx, c)
	case "fill":
		err = s.peer.Fill(ctx, c.Jobs, c.Job)
	case "stuff":
		err = s.peer.Stuff(ctx, c.Jobs, c.Ended)
	case "work":
		err = s.peer.Work(ctx, s.started)
	case "count":
		return s.count(c), nil
	case "await":
		return s.await(ctx, c)
	case "pickup":
		return s.pickup(ctx, c)
	case "recur":
		err = s.peer.Recur(ctx, c.Jobs, time.Duration(c.Every*float64(time.Second)))
	default:
		err = errors.New("no such command")
	}
	return Answer{Jobs: c.Jobs, Seconds: time.Since(begin).Seconds()}, err
}

func (s *server) count(c Command) Answer {
	a := Answer{Jobs: s.started.Ran()}
	if h, knows := s.peer.(Holder); knows && c.Ends {
		a.Jobs = max(0, a.Jobs-h.Held())
	}
	if c.Allocs {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		a.Allocs = m.Mallocs
	}
	return a
}

// submit: that many clients, each submitting one job after the other.
func (s *server) submit(ctx context.Context, c Command) (Answer, error) {
	var n atomic.Int64
	begin := time.Now()
	errs := make(chan error, c.Clients)
	for range c.Clients {
		go func() {
			for time.Since(begin).Seconds() < c.Seconds {
				if err := s.peer.Submit(ctx); err != nil {
					errs <- err
					return
				}
				n.Add(1)
			}
			errs <- nil
		}()
	}
	var err error
	for range c.Clients {
		err = errors.Join(err, <-errs)
	}
	return Answer{Jobs: int(n.Load()), Seconds: time.Since(begin).Seconds()}, err
}

// await: until that many jobs have started here and no due job is left in the store. It does not ask the
// store before.
func (s *server) await(ctx context.Context, c Command) (Answer, error) {
	begin := time.Now()
	for {
		// If the store has none left when it answers, the end was before the question, because asking takes
		// time.
		left, at := 1, time.Now()
		if c.Store || s.started.Ran() >= c.Jobs {
			var err error
			if left, err = s.peer.Unfinished(ctx); err != nil {
				return Answer{}, err
			}
		}
		over := time.Since(begin).Seconds() > c.Seconds
		if left == 0 || over {
			return Answer{
				Jobs: s.started.Ran(), Seconds: time.Since(begin).Seconds(), At: at.UnixMicro(),
				Over: left > 0, Late: s.started.Late(),
			}, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// pickup: from the call that submits a job to its start, one job at a time.
func (s *server) pickup(ctx context.Context, c Command) (Answer, error) {
	var waits []time.Duration
	for range c.Jobs {
		next := s.started.Next()
		begin := time.Now()
		if err := s.peer.Now(ctx, Job{}); err != nil {
			return Answer{}, err
		}
		select {
		case at := <-next:
			waits = append(waits, at.Sub(begin))
		case <-time.After(30 * time.Second):
			return Answer{}, errors.New("a job that was handed in did not start for 30 s")
		}
		time.Sleep(time.Duration(c.Gap) * time.Millisecond)
	}
	return Answer{Jobs: len(waits), Late: TimesOf(waits)}, nil
}
