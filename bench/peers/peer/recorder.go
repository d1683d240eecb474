package peer

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Recorder is told of every start, by thousands of goroutines at once: what it does must not be what is measured, so they share
// no lock.
type Recorder struct {
	ran   atomic.Int64
	next  atomic.Pointer[chan time.Time] // somebody waits for the next start
	parts [64]part
}

// part is what some of the starts have said.
type part struct {
	mu   sync.Mutex
	late []time.Duration
	_    [64]byte // a cache line of its own
}

// Start is the first thing that a job does: it says how late it is, and then does what the payload asks for.
func (r *Recorder) Start(payload []byte) {
	now := time.Now()
	j, quick := quickly(payload)
	if !quick {
		_ = json.Unmarshal(payload, &j)
	}
	r.At(now, j)
}

// quickly reads a payload as Job.Payload writes it: what is measured is a no-op, not the reading of JSON.
func quickly(payload []byte) (j Job, ok bool) {
	rest := payload
	number := func(name string) (n int64) {
		if !bytes.HasPrefix(rest, []byte(name)) {
			return 0
		}
		for rest = rest[len(name):]; len(rest) > 0 && rest[0] >= '0' && rest[0] <= '9'; rest = rest[1:] {
			n = 10*n + int64(rest[0]-'0')
		}
		rest = bytes.TrimPrefix(rest, []byte(","))
		return n
	}
	if !bytes.HasPrefix(rest, []byte("{")) {
		return j, false
	}
	rest = rest[1:]
	j.Due = number(`"due":`)
	j.Sleep = int(number(`"sleep":`))
	return j, bytes.HasPrefix(rest, []byte(`"customer":`))
}

// At is Start for who has read the payload already.
func (r *Recorder) At(now time.Time, j Job) {
	r.ran.Add(1)
	if j.Due != 0 {
		p := &r.parts[rand.IntN(len(r.parts))]
		p.mu.Lock()
		p.late = append(p.late, now.Sub(time.UnixMicro(j.Due)))
		p.mu.Unlock()
	}
	if r.next.Load() != nil {
		if next := r.next.Swap(nil); next != nil {
			*next <- now
		}
	}
	if j.Sleep > 0 {
		time.Sleep(time.Duration(j.Sleep) * time.Millisecond)
	}
}

// Ran is how many have started.
func (r *Recorder) Ran() int { return int(r.ran.Load()) }

// Next is where the time of the next start is told.
func (r *Recorder) Next() <-chan time.Time {
	next := make(chan time.Time, 1)
	r.next.Store(&next)
	return next
}

// Late is how late those that have started were, and forgets them.
func (r *Recorder) Late() Times {
	var all []time.Duration
	for i := range r.parts {
		p := &r.parts[i]
		p.mu.Lock()
		all = append(all, p.late...)
		p.late = nil
		p.mu.Unlock()
	}
	return TimesOf(all)
}

// Times are percentiles, in milliseconds.
type Times struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// TimesOf sorts what it is given.
func TimesOf(d []time.Duration) Times {
	if len(d) == 0 {
		return Times{}
	}
	slices.Sort(d)
	at := func(q float64) float64 {
		return float64(d[min(int(q*float64(len(d))), len(d)-1)].Microseconds()) / 1000
	}
	return Times{len(d), at(0.5), at(0.99), at(1)}
}
