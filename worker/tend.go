package worker

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/internal/await"
	"github.com/carillon-run/carillon/worker/protocol"
)

const (
	tendEvery = 200 * time.Millisecond
	// briefly is how long a run goes on before the worker reports that it runs: most runs have ended by then,
	// and one more write for each would cost as much as its claim.
	briefly = 100 * time.Millisecond
	// beatTime bounds a beat, so that there is time for another one within the lease.
	beatTime = 1900 * time.Millisecond
)

// register opens a session. It tries until it succeeds; it returns false when ctx has ended.
func (w *Worker) register(ctx context.Context) bool {
	want, _ := w.want()
	r := protocol.Registration{Name: w.cfg.Name, Profile: carillon.Profile{
		Host: w.cfg.Host, Version: w.cfg.Version, Want: want, Slots: w.cfg.Concurrency,
	}}
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		sent := w.cfg.Boottime()
		id, err := w.cfg.Dispatcher.Register(ctx, r)
		if err == nil {
			w.mu.Lock()
			w.id = id
			w.mu.Unlock()
			w.lease.Extend(sent + protocol.LeaseTime)
			w.answered()
			w.cfg.Logger.Debug("registered", "worker", id)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		w.silent("register", err)
		if !await.For(ctx, wait) {
			return false
		}
	}
}

// beat prolongs the session and the lease. The lease counts from when the worker sent the beat: the node that
// answered knows of no later moment at which this worker was alive. When the session is over, beat stops all
// attempts and opens a new session.
func (w *Worker) beat(ctx context.Context) {
	tick := time.NewTicker(protocol.BeatEvery)
	defer tick.Stop()
	heard := int64(0)
	for number := int64(1); ; number++ {
		select {
		case <-tick.C:
		case <-w.beatSoon:
		case <-ctx.Done():
			return
		}
		sent := w.cfg.Boottime()
		try, cancel := context.WithTimeout(ctx, beatTime)
		orders, err := w.cfg.Dispatcher.Beat(try, w.beatNow(number, heard))
		cancel()
		switch {
		case err == nil:
			heard = number
			w.checkLease()
			w.lease.Extend(sent + protocol.LeaseTime)
			w.over.Store(false)
			w.answered()
			w.obey(orders.Stop)
		case errors.Is(err, carillon.ErrSessionOver):
			w.cfg.Logger.Error("the worker's session is over: stopping its runs, opening a new one")
			w.cancelAll(executor.ErrLeaseOver)
			w.register(ctx)
			heard = 0 // no beat of the new session was answered
		case ctx.Err() == nil:
			w.silent("prolong the session", err)
		}
	}
}

// beatNow reads stopping before it lists the holds: when stopping is set, all pulls have ended, so the beat
// lists every run that they brought.
func (w *Worker) beatNow(number, heard int64) carillon.Beat {
	stopping := w.stopping.Load()
	return carillon.Beat{
		ID: w.ID(), Number: number, Heard: heard, Holds: w.holds(stopping), Stopping: stopping,
	}
}

func (w *Worker) obey(stop []protocol.Order) {
	for _, order := range stop {
		w.mu.Lock()
		a := w.held[order.Run]
		w.mu.Unlock()
		switch {
		case a == nil || a.Held() != order.Held:
		case order.Lost:
			a.abandon()
		default:
			a.stop(stopped(order.Reason))
		}
	}
}

// keepLease stops all attempts when the lease is over: no beat was answered, or the process was frozen. The
// supervisors have killed their commands by then, so the rest stops too.
func (w *Worker) keepLease(ctx context.Context) {
	for await.For(ctx, tendEvery) {
		w.checkLease()
	}
}

func (w *Worker) checkLease() {
	if w.cfg.Boottime() <= w.lease.Until() {
		return
	}
	if running, _ := w.Running(); running > 0 && !w.over.Swap(true) {
		w.cfg.Logger.Error(
			"no beat was answered for longer than the lease: stopping the runs", "lease", protocol.LeaseTime,
			"runs", running,
		)
	}
	w.cancelAll(executor.ErrLeaseOver)
}

// record reports the lines that attempts print and the attempts that have begun.
func (w *Worker) record(ctx context.Context) {
	for await.For(ctx, tendEvery) {
		now := w.cfg.Clock.Now()
		var reports []protocol.Report
		var of []*attempt
		for _, a := range w.all() {
			if r, any := a.news(now); any {
				reports, of = append(reports, r), append(of, a)
			}
		}
		if len(reports) == 0 {
			continue
		}
		receipts, err := w.cfg.Dispatcher.Report(ctx, w.ID(), reports)
		if err != nil {
			w.silent("report what runs", err)
		}
		for i, a := range of {
			a.told(&reports[i], err == nil && receipts[i] != protocol.ReceiptAgain)
			if err == nil && receipts[i] == protocol.ReceiptRefused {
				a.abandon()
			}
		}
	}
}

// news are what the attempt has to report while it goes on. A caller that takes them calls told afterwards.
func (a *attempt) news(now carillon.Time) (r protocol.Report, any bool) {
	a.mu.Lock()
	if a.finishing {
		a.mu.Unlock()
		return r, false
	}
	if !a.begun && a.began != 0 && now.Sub(a.began) > briefly {
		r.Begun = a.began
	}
	a.mu.Unlock()
	if r.Lines = a.out.take(); r.Begun == 0 && len(r.Lines) == 0 {
		return r, false
	}
	r.Held, r.Token = a.Held(), a.Token
	return r, true
}

func (a *attempt) told(r *protocol.Report, ok bool) {
	a.out.taken(r.Lines, ok)
	a.mu.Lock()
	defer a.mu.Unlock()
	if ok && r.Begun != 0 {
		a.begun = true
	}
}
