package ledger

import (
	"testing"
	"time"
)

func TestTheWaitForACommit(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		queue    queue
		flushers int
		want     time.Duration
	}{
		"nothing waits, however long commits take": {queue{commit: time.Hour}, 1, 0},
		"the next commit takes all that waits": {
			queue{changes: 10, since: now, commit: 20 * time.Millisecond}, 1, 20 * time.Millisecond,
		},
		"three commits are needed for what waits": {
			queue{changes: 250, since: now, commit: 20 * time.Millisecond}, 1, 60 * time.Millisecond,
		},
		"several commits are written at once": {
			queue{changes: 250, since: now, commit: 20 * time.Millisecond}, 4, 20 * time.Millisecond,
		},
		"the store hangs": {
			queue{changes: 1, since: now.Add(-time.Minute), commit: 20 * time.Millisecond}, 1, time.Minute,
		},
	} {
		c.queue.room = 100
		if got := c.queue.wait(now, c.flushers); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
