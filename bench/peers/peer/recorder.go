package peer

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Recorder is told of every start.
type Recorder struct {
	ran  atomic.Int64
	mu   sync.Mutex
	late []time.Duration
	next chan time.Time // somebody waits for the next start
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
		r.mu.Lock()
		r.late = append(r.late, now.Sub(time.UnixMicro(j.Due)))
		r.mu.Unlock()
	}
	r.mu.Lock()
	next := r.next
	r.next = nil
	r.mu.Unlock()
	if next != nil {
		next <- now
	}
	if j.Sleep > 0 {
		time.Sleep(time.Duration(j.Sleep) * time.Millisecond)
	}
}

// Ran is how many have started.
func (r *Recorder) Ran() int { return int(r.ran.Load()) }

// Next is where the time of the next start is told.
func (r *Recorder) Next() <-chan time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = make(chan time.Time, 1)
	return r.next
}

// Late is how late those that have started were, and forgets them.
func (r *Recorder) Late() Times {
	r.mu.Lock()
	defer r.mu.Unlock()
	late := TimesOf(r.late)
	r.late = nil
	return late
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
