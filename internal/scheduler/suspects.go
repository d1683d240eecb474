package scheduler

import (
	"context"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

// A live worker lists the runs that it holds with each beat. If the store says that a worker holds a run and
// the worker does not list it, either the run was claimed just now or the answer to the pull was lost. No
// clock tells the two cases apart: the claim has the time of one machine, the beat that of another, and both
// clocks can be set. And a beat can be held up on its way. So the watch loop relies on what it sees itself:
// it suspects such a run when it first sees it. It takes the run back if the worker still does not list it
// with a beat that it sent at least Handover later, or if UnknownTime has passed.

// suspects are held runs that their live worker did not list at the last check of the watch loop.
type suspects map[claim]suspect

// claim names one claim of a run.
type claim struct {
	carillon.Held
	worker string
}

type suspect struct {
	since time.Time // when the watch loop saw it first, by its monotonic clock
	// number is that of the worker's last beat when the watch loop asked for it, at least Handover later. If
	// the worker has heard of a later beat, it sent its next one after that. -1: the watch loop has not asked
	// again yet.
	number int64
}

// maxSuspects bounds the memory. The watch loop suspects further runs when some of these are gone.
const maxSuspects = 10_000

// due gets a word when one of the suspects can be judged.
func (s suspects) due() <-chan time.Time {
	if len(s) == 0 {
		return nil
	}
	wait, now := protocol.Handover, time.Now()
	for _, one := range s {
		left := protocol.Handover - now.Sub(one.since)
		if one.number >= 0 {
			left = protocol.BeatEvery + 100*time.Millisecond
		}
		wait = min(wait, left)
	}
	return time.After(max(wait, 0))
}

// heldScan is one check of held runs.
type heldScan struct {
	now       carillon.Time // when the runs were read that are being judged
	were, are suspects
	holdings  map[string]holding // by worker, for workers that were asked about
}

func newHeldScan(were suspects) *heldScan {
	return &heldScan{were: were, are: suspects{}, holdings: map[string]holding{}}
}

// holding is what a worker said that it holds.
type holding struct {
	asked         time.Time // when the coordinator was asked
	answered      bool      // the worker's session is alive
	number, heard int64     // of the beat that said it
	runs          map[carillon.Held]bool
}

// fresh says that a run was most likely claimed since the last beat of its worker. If the clocks say so
// wrongly, the run is checked a little later; nothing else depends on it.
func fresh(run *carillon.Run, now carillon.Time) bool {
	age := now.Sub(run.Claimed)
	return age >= 0 && age < 2*protocol.BeatEvery
}

// readHolds asks the coordinator which runs the live workers of these runs hold. A check can take longer than
// a worker takes between two beats, so it asks again for runs that it reads later.
func (s *Scheduler) readHolds(ctx context.Context, runs []carillon.Run, seen *heldScan) error {
	var workers []string
	now := time.Now()
	for i := range runs {
		run := &runs[i]
		if now.Sub(seen.holdings[run.Worker].asked) < protocol.BeatEvery || fresh(run, seen.now) ||
			!s.members.has(run.Worker, s.cfg.Node == "") {
			continue
		}
		seen.holdings[run.Worker] = holding{asked: now}
		workers = append(workers, run.Worker)
	}
	if len(workers) == 0 {
		return nil
	}
	list, _, err := s.cfg.Coordinator.Members(ctx, carillon.MemberQuery{IDs: workers, Holds: true})
	for _, m := range list {
		runs := make(map[carillon.Held]bool, len(m.Holds))
		for _, run := range m.Holds {
			runs[run] = true
		}
		seen.holdings[m.ID] = holding{
			asked: now, answered: true, number: m.Number, heard: m.Heard, runs: runs,
		}
	}
	return err
}

// unknown says whether the worker of a held run does not know of it, and notes suspects.
func (l *heldScan) unknown(run *carillon.Run, now time.Time) bool {
	key := claim{run.Held(), run.Worker}
	said, asked := l.holdings[run.Worker]
	was, suspected := l.were[key]
	switch {
	case !asked || !said.answered || said.runs[key.Held] || !suspected && fresh(run, l.now):
		return false
	case !suspected:
		was = suspect{since: now, number: -1}
	case said.asked.Sub(was.since) >= protocol.UnknownTime:
		return true
	case was.number < 0 && said.asked.Sub(was.since) >= protocol.Handover:
		was.number = said.number
	case was.number >= 0 && said.heard > was.number:
		return true
	}
	if len(l.are) < maxSuspects {
		l.are[key] = was
	}
	return false
}
