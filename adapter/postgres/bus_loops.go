package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-run/carillon"
)

// $1 payload. It is sent in a transaction without other writes, because transactions that notify commit one
// after another.
var notify = statement{"notify", `SELECT pg_notify('carillon', $1::text)`}

// missedPause is the factor by which send prolongs its pause after it sent EventMissed. The listeners then
// read everything again, and the system is busy already.
const missedPause = 4

// send sends pending events: at once after a quiet time, and then at most once per pause.
func (b *Bus) send(ctx context.Context) {
	for {
		select {
		case <-b.published:
		case <-ctx.Done():
			return
		}
		pause := b.config.Every
		payload, missed := b.take()
		if payload == "" {
			continue
		}
		if missed {
			pause *= missedPause
		}
		if err := b.store.beside(ctx, call{
			statement: &notify, params: [][]byte{textParam(payload)},
		}); err != nil &&
			ctx.Err() == nil {
			b.config.Logger.Warn("events were not sent to other nodes", "error", err)
			b.keepMissed()
			pause = retryAtMost
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// take returns the next notification. It is empty if nothing is pending: the events that the signal was for
// may have gone with the notification before.
func (b *Bus) take() (payload string, missed bool) {
	b.mu.Lock()
	names := slices.Collect(maps.Keys(b.pending))
	missed = b.overflow
	clear(b.pending)
	b.overflow = false
	b.mu.Unlock()
	if !missed {
		if len(names) == 0 {
			return "", false
		}
		if payload, fits := packNames(b.sender, names); fits {
			return payload, false
		}
	}
	payload, _ = packNames(b.sender, nil)
	return payload, true
}

// keepMissed makes the next notification say that something was missed.
func (b *Bus) keepMissed() {
	b.mu.Lock()
	b.overflow = true
	clear(b.pending)
	b.mu.Unlock()
	b.published.Set()
}

// These are the times after which a dead connection is noticed, and a new one is tried.
const (
	quietTime   = 10 * time.Second
	pingTime    = 5 * time.Second
	retryAfter  = 100 * time.Millisecond
	retryAtMost = 5 * time.Second
)

// listen keeps a connection while there are listeners, and makes a new one when it is lost.
func (b *Bus) listen(ctx context.Context) {
	pause := retryAfter
	for ctx.Err() == nil {
		if !b.listening() {
			select {
			case <-b.changed:
			case <-ctx.Done():
			}
			continue
		}
		connected, err := b.hear(ctx)
		if connected {
			pause = retryAfter
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		b.config.Logger.Warn("events of other nodes cannot be heard", "error", err, "retry", pause)
		select {
		case <-time.After(pause):
			pause = min(2*pause, retryAtMost)
		case <-ctx.Done():
		}
	}
}

// hear listens on one connection until it is lost, or until the last listener has left.
func (b *Bus) hear(ctx context.Context) (connected bool, err error) {
	conn, err := b.connect(ctx)
	if err != nil {
		return false, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTime)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	// Events before this moment are lost.
	b.tell(carillon.Event{Kind: carillon.EventMissed})
	heard := make(chan string)
	ctx, stop := context.WithCancel(ctx)
	failed := make(chan error, 1)
	go func() { failed <- receive(ctx, conn, heard) }()
	defer func() { stop(); <-failed }()
	for {
		select {
		case payload := <-heard:
			b.deliver(ctx, payload)
		case <-b.changed:
			if !b.listening() {
				return true, nil
			}
		case err := <-failed:
			failed <- err
			return true, err
		}
	}
}

func (b *Bus) connect(ctx context.Context) (*pgx.Conn, error) {
	config := b.store.readers.Config().ConnConfig
	if b.config.URL != "" {
		own, err := pgx.ParseConfig(b.config.URL)
		if err != nil {
			return nil, fmt.Errorf("read the address to listen at: %w", err)
		}
		config = own
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err := conn.PgConn().Exec(ctx, `LISTEN carillon`).ReadAll(); err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// receive passes on notifications, and pings the connection when none come: a connection whose other end is
// gone is as quiet as one on which nothing happens.
func receive(ctx context.Context, conn *pgx.Conn, heard chan<- string) error {
	for {
		waiting, cancel := context.WithTimeout(ctx, quietTime)
		n, err := conn.WaitForNotification(waiting)
		cancel()
		switch {
		case err == nil:
			select {
			case heard <- n.Payload:
			case <-ctx.Done():
				return ctx.Err()
			}
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return err
		default:
			pinging, cancel := context.WithTimeout(ctx, pingTime)
			err := conn.Ping(pinging)
			cancel()
			if err != nil {
				return err
			}
		}
	}
}

// deliver reads the runs that a listener wants to hear of. If they cannot be read, the listeners hear
// EventMissed. A run that does not exist any more gives no event.
func (b *Bus) deliver(ctx context.Context, payload string) {
	sender, names, err := unpackNames(payload)
	if err == nil && sender == b.sender {
		return
	}
	names = slices.DeleteFunc(names, func(n name) bool { return !b.wanted(n) })
	events, readErr := b.read(ctx, names)
	if err != nil || readErr != nil || len(payload) == senderSize {
		events = []carillon.Event{{Kind: carillon.EventMissed}}
	}
	b.tell(events...)
}

func (b *Bus) read(ctx context.Context, names []name) (events []carillon.Event, err error) {
	var ids []carillon.RunID
	for _, n := range names {
		if n.run.Due != 0 {
			ids = append(ids, n.run)
		}
	}
	runs := map[carillon.RunID]*carillon.Run{}
	if len(ids) > 0 {
		found, err := b.store.Runs(ctx, ids, false)
		if err != nil {
			return nil, err
		}
		for i := range found {
			runs[found[i].ID] = &found[i]
		}
	}
	for _, n := range names {
		if n.run.Due == 0 {
			events = append(events, carillon.Event{
				Kind: carillon.EventJob, Namespace: n.namespace, Job: n.run.Job,
			})
		} else if run := runs[n.run]; run != nil {
			events = append(events, carillon.Event{
				Kind: carillon.EventRun, Namespace: n.namespace, Run: *run, Job: n.run.Job,
			})
		}
	}
	return events, nil
}
