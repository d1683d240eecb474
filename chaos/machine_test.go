package chaos

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// machine measures for how long processes of this machine waited for a processor or a disk. Checks of real
// time allow for that, so that a busy machine does not fail a test.
type machine struct {
	mu       sync.Mutex
	marks    []mark
	slow     time.Duration // by how much the flushes that have ended were too slow
	flushing time.Time     // when the flush began that is under way
}

// mark is the total waiting time up to a moment.
type mark struct {
	at    time.Time
	stood time.Duration // measured by ticks that came late: nothing ran
	slow  time.Duration // measured by flushes that took long: no database could commit
	kept  time.Duration // counted by the kernel: at least one process had to wait
}

const (
	markEvery  = 20 * time.Millisecond
	flushEvery = 200 * time.Millisecond
	// A flush of a few bytes takes a tenth of this on a slow disk that does its work.
	longFlush = 200 * time.Millisecond
	// A process that shares a processor still makes progress, so not all the time that the kernel counts is
	// an excuse.
	mostKept = 4 * time.Second
)

// watchMachine begins to watch with the first test that asks, and goes on until the last has ended.
var watchMachine = sync.OnceValue(func() *machine {
	m := &machine{marks: []mark{{at: time.Now(), kept: pressure()}}}
	go func() {
		for range time.Tick(markEvery) {
			m.mark(time.Now(), pressure())
		}
	}()
	go m.flush()
	return m
})

// flush writes to a file of its own, on the disk on which the databases of tests are, again and again.
func (m *machine) flush() {
	f, err := os.CreateTemp("", "flush")
	if err != nil {
		return // a machine on which no file can be written fails the tests in clearer words
	}
	_ = os.Remove(f.Name()) // the file is gone when the process ends
	for range time.Tick(flushEvery) {
		m.flushed(time.Now(), true)
		_, _ = f.WriteAt([]byte("flushed"), 0)
		_ = f.Sync()
		m.flushed(time.Now(), false)
	}
}

// flushed notes that a flush begins or has ended.
func (m *machine) flushed(at time.Time, begins bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slow, m.flushing = m.slowUntil(at), time.Time{}
	if begins {
		m.flushing = at
	}
}

// slowUntil is by how much flushes were too slow up to a time, the one under way among them.
func (m *machine) slowUntil(at time.Time) time.Duration {
	if m.flushing.IsZero() {
		return m.slow
	}
	return m.slow + max(at.Sub(m.flushing)-longFlush, 0)
}

func (m *machine) mark(at time.Time, kept time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.marks[len(m.marks)-1]
	late := max(at.Sub(before.at)-2*markEvery, 0)
	m.marks = append(m.marks, mark{at, before.stood + late, m.slowUntil(at), kept})
}

// allowance is how much longer than on an idle machine something can have taken between two times.
func (m *machine) allowance(from, to time.Time) time.Duration {
	a, b := m.around(from, to)
	return max(m.stood(from, to), min(b.kept-a.kept, mostKept))
}

// busy says that processes had to wait for nine tenths of the time between two times.
func (m *machine) busy(from, to time.Time) bool {
	a, b := m.around(from, to)
	return b.kept-a.kept > b.at.Sub(a.at)*9/10
}

// stood is for how long no process ran, or no disk wrote, between two times.
func (m *machine) stood(from, to time.Time) time.Duration {
	a, b := m.around(from, to)
	return max(b.stood-a.stood, b.slow-a.slow)
}

// around are the last mark before the first time and the first mark after the second.
func (m *machine) around(from, to time.Time) (a, b mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first, _ := slices.BinarySearchFunc(m.marks, from, byTime)
	last, _ := slices.BinarySearchFunc(m.marks, to, byTime)
	return m.marks[max(first-1, 0)], m.marks[min(last, len(m.marks)-1)]
}

func byTime(m mark, at time.Time) int { return m.at.Compare(at) }

// pressure is for how long processes have waited since the machine started; 0 if the kernel does not say.
func pressure() (all time.Duration) {
	for _, of := range []string{"cpu", "io", "memory"} {
		b, err := os.ReadFile("/proc/pressure/" + of)
		if err != nil {
			continue
		}
		some, _, _ := strings.Cut(string(b), "\n")
		var micros int64
		if _, total, ok := strings.Cut(some, "total="); ok {
			_, _ = fmt.Sscan(total, &micros)
		}
		all += time.Duration(micros) * time.Microsecond
	}
	return all
}

func TestTheAllowanceIsWhatTheMachineTook(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	at := func(d time.Duration) time.Time { return begin.Add(d) }
	m := &machine{marks: []mark{{at: begin}}}
	m.mark(at(20*time.Millisecond), 0)
	m.mark(at(3060*time.Millisecond), 0) // nothing ran for three seconds
	m.mark(at(3080*time.Millisecond), 500*time.Millisecond)
	m.mark(at(60*time.Second), time.Minute)
	m.marks[4].stood = m.marks[3].stood // ticks came in time, although processes had to wait
	m.flushed(at(61*time.Second), true)
	m.mark(at(65*time.Second), time.Minute)
	m.flushed(at(67*time.Second), false)
	m.mark(at(68*time.Second), time.Minute)
	m.flushed(at(69*time.Second), true)
	m.flushed(at(69*time.Second+longFlush/2), false) // in time
	m.mark(at(70*time.Second), time.Minute)
	for i := 5; i < len(m.marks); i++ {
		m.marks[i].stood = m.marks[4].stood
	}
	for _, c := range []struct {
		from, to, want time.Duration
	}{
		{0, 20 * time.Millisecond, 0},
		{time.Second, 2 * time.Second, 3 * time.Second},
		{3070 * time.Millisecond, 3075 * time.Millisecond, 500 * time.Millisecond},
		{4 * time.Second, 59 * time.Second, mostKept},
		{0, time.Minute, mostKept},
		{61 * time.Second, 65 * time.Second, 4*time.Second - longFlush},
		{61 * time.Second, 68 * time.Second, 6*time.Second - longFlush},
		{61 * time.Second, time.Hour, 6*time.Second - longFlush},
		{69 * time.Second, 70 * time.Second, 0},
	} {
		if got := m.allowance(at(c.from), at(c.to)); got != c.want {
			t.Errorf("from %s to %s: allowed %s, want %s", c.from, c.to, got, c.want)
		}
	}
}
