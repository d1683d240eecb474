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

// Recorder is told of every start, by thousands of goroutines at once. Its own cost must not show in the
// figures, so the goroutines share no single lock.
type Recorder struct {
	ran   atomic.Int64
	next  atomic.Pointer[chan time.Time] // a caller waits for the next start
	parts [64]part
}

// part holds the lateness of some of the starts.
type part struct {
	mu   sync.Mutex
	late []time.Duration
	_    [64]byte // keeps each part on its own cache line
}

// Start is the first thing that a job does: it records how late the job is, and then sleeps if the payload
// says so.
func (r *Recorder) Start(payload []byte) {
	now := time.Now()
	j, quick := quickly(payload)
	if !quick {
		_ = json.Unmarshal(payload, &j)
	}
	r.At(now, j)
}

// quickly reads a payload that Job.Payload wrote: the benchmark measures a no-op, not the decoding of JSON.
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

// At is Start for a caller that has read the payload already.
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

// Ran is how many jobs have started.
func (r *Recorder) Ran() int { return int(r.ran.Load()) }

// Next is a channel that gets the time of the next start.
func (r *Recorder) Next() <-chan time.Time {
	next := make(chan time.Time, 1)
	r.next.Store(&next)
	return next
}

// Late returns how late the jobs that have started were, and forgets them.
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

// TimesOf computes percentiles. It sorts d in place.
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
