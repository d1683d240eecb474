package ledger

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
)

const (
	// maxHold bounds how long a crowd of submits waits for slots. From one look to the next maxLook counts
	// at most: a flusher that commits does not look. However slow commits are, a crowd waits for maxHeld at
	// most.
	maxHold = 250 * time.Millisecond
	maxLook = 50 * time.Millisecond
	maxHeld = time.Second
	// holdAgain is how long no crowd is held back after one has waited in vain. It doubles each time that the
	// next one waits in vain too, up to maxAgain.
	holdAgain = 100 * time.Millisecond
	maxAgain  = 2 * time.Second
)

// crowd is what the ledger knows of submits that wait although they are due. mu of the ledger guards all of
// it.
type crowd struct {
	due     atomic.Int64  // changes that wait in submits, and could be claimed; read without mu
	waits   atomic.Bool   // for slots; read without mu
	leaving int           // those of them that a flusher has taken, and not tried to claim yet
	looked  time.Time     // when the ledger last found no slots for them; zero: they are not held back
	held    time.Time     // since when they are held back
	waited  time.Duration // since then, as far as it counts
	freely  time.Time     // until then they are not held back
	vain    time.Duration // how long that lasts if they wait in vain; zero: holdAgain
}

// takeStarts removes starts, and then submits that fit into the same commit, unless they are held back. The
// caller holds mu.
func (l *Ledger) takeStarts(closing bool) (batch []entry) {
	batch = l.starts.take(l.cfg.MaxBatch)
	if len(l.submits) > 0 {
		room := l.submitRoom(changesOf(batch))
		if !closing {
			room = l.crowdRoom(room)
		}
		if room > 0 {
			submits := l.submits.take(room)
			l.leave(submits)
			batch = append(batch, submits...)
		}
	}
	l.waiting.Add(int64(-changesOf(batch)))
	return batch
}

// claimable says that the run of a submit can be written already claimed. One with limits takes its slots
// when it is claimed, by folds, and one that a closed gate matches is decided then.
func (l *Ledger) claimable(c *carillon.Change, now carillon.Time) bool {
	run := &c.Runs[0]
	return run.Wake <= now && !run.State.Held() && run.NeedsNoDecision(now) &&
		!run.Has(carillon.FlagLate) && // a claim may have a hook
		len(l.limitsOf(c.Job)) == 0 && l.closedFor(c.Job) == nil
}

// countClaimable is how many changes of a submit could have had a slot.
func (l *Ledger) countClaimable(changes []carillon.Change, now carillon.Time) (n int) {
	for i := range changes {
		if l.slots != nil && l.claimable(&changes[i], now) {
			n++
		}
	}
	return n
}

// crowded says that so many due submits wait that they are worth a wait for slots.
func (l *Ledger) crowded() bool { return l.crowd.due.Load() > int64(l.few()) }

// crowdRoom is how many submits the next commit takes, given how many fit. A crowd goes as slots become free.
// No slot is free for a crowd while due runs are on their way to slots; if submits were committed meanwhile,
// their runs would be the next ones on their way. So under overload every run would need a claim, one write
// more than a run that is submitted when a slot is free. The callers of a crowd wait for each other anyhow.
// The caller holds mu.
func (l *Ledger) crowdRoom(room int) int {
	now := time.Now()
	looked := l.crowd.looked
	l.crowd.looked = time.Time{}
	defer func() { l.crowd.waits.Store(!l.crowd.looked.IsZero()) }()
	if !l.crowded() || now.Before(l.crowd.freely) {
		return room
	}
	ahead, free, crowd := l.ahead(room)
	free -= l.crowd.leaving
	switch {
	case !crowd:
		return room
	case free > l.few():
		l.crowd.vain = 0
		return min(room, ahead+free)
	case looked.IsZero():
		l.crowd.held, l.crowd.waited = now, 0
	default:
		l.crowd.waited += min(now.Sub(looked), maxLook)
	}
	if l.crowd.waited >= maxHold || now.Sub(l.crowd.held) >= maxHeld {
		l.crowd.vain = min(max(2*l.crowd.vain, holdAgain), maxAgain)
		l.crowd.freely = now.Add(l.crowd.vain)
		return room
	}
	l.crowd.looked = now
	return ahead
}

// SlotsFree says that slots may have become free. Without it a crowd that waits for them would look for them
// some milliseconds later.
func (l *Ledger) SlotsFree() {
	if l.crowd.waits.Load() {
		l.signal.Set()
	}
}

// few is how many slots, and how many due submits, are not worth a wait.
func (l *Ledger) few() int { return l.cfg.MaxBatch / 16 }

// ahead is how many changes go before the crowd, of as many as fit: those of jobs for later, and of due jobs
// whose workers have few slots. crowd says that the crowd comes next, and free how many slots there are for
// runs like its first one. The caller holds mu.
func (l *Ledger) ahead(room int) (ahead, free int, crowd bool) {
	now := l.cfg.Clock.Now()
	var scarce map[carillon.Lane]bool // lanes whose workers have few slots
	for i := 0; i < len(l.submits) && ahead < room; i++ {
		e := &l.submits[i]
		if e.due > 0 {
			run := l.firstDue(e, now)
			lane := run.Lane()
			if !scarce[lane] {
				free, coming := l.slots.Free(run)
				if coming > l.few() {
					return ahead, free, true
				}
				if scarce == nil {
					scarce = map[carillon.Lane]bool{}
				}
				scarce[lane] = true
			}
		}
		ahead += len(e.changes)
	}
	return ahead, 0, false
}

// firstDue is the first run of a submit that can be claimed.
func (l *Ledger) firstDue(e *entry, now carillon.Time) *carillon.Run {
	i := slices.IndexFunc(e.changes, func(c carillon.Change) bool { return l.claimable(&c, now) })
	return &e.changes[max(i, 0)].Runs[0]
}

// holding says that a crowd is held back, and was looked at lately. The caller holds mu.
func (l *Ledger) holding() bool {
	return !l.crowd.looked.IsZero() && time.Since(l.crowd.looked) < maxLook
}

// leave notes that submits were taken. The caller holds mu.
func (l *Ledger) leave(submits []entry) {
	for i := range submits {
		l.crowd.due.Add(int64(-submits[i].due))
		l.crowd.leaving += submits[i].due
	}
}

// left notes that the submits of a batch were offered the free slots.
func (l *Ledger) left(batch []entry) {
	n := 0
	for i := range batch {
		n += batch[i].due
	}
	if n > 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.crowd.leaving -= n
	}
}
