package ledger

import "time"

// queue is what waits for a commit at one moment.
type queue struct {
	changes int           // that are in no commit yet, without ends
	room    int           // of a commit for them
	since   time.Time     // when the first of them began to wait
	commit  time.Duration // how long a commit takes lately
}

// wait is how long a change that comes now will probably wait until it is on disk: for the commits that the
// changes before it need. If the store hangs, no commit ends and none is measured; then it is how long the
// first change has waited already.
func (q queue) wait(now time.Time, flushers int) time.Duration {
	if q.changes == 0 {
		return 0
	}
	rounds := 1 + q.changes/(q.room*flushers)
	return max(now.Sub(q.since), time.Duration(rounds)*q.commit)
}

// Wait is how long a change that comes now will probably wait until it is on disk, by the length of recent
// commits. While no change waits it is 0, and costs one atomic read.
func (l *Ledger) Wait(now time.Time) time.Duration {
	if l.waiting.Load() == 0 {
		return 0
	}
	q := queue{commit: time.Duration(l.commitTime.Load())}
	l.mu.Lock()
	for _, waits := range []entries{l.starts, l.submits} {
		if len(waits) > 0 && (q.changes == 0 || waits[0].since.Before(q.since)) {
			q.changes, q.since = int(l.waiting.Load()), waits[0].since
		}
	}
	q.room = l.submitRoom(changesOf(l.starts))
	l.mu.Unlock()
	return q.wait(now, l.cfg.Flushers)
}

// measured takes in how long a commit took. A mean of the last few commits follows a store that becomes slow,
// and forgets a single slow commit.
func (l *Ledger) measured(took time.Duration) {
	const share = 4
	mean := l.commitTime.Load()
	l.commitTime.Store(mean + (int64(took)-mean)/share)
}
