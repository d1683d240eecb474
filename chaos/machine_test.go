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

// machine measures for how long processes of this machine waited for a processor or a disk while a test ran.
// Checks of real time allow for that, so that a busy machine does not fail a test.
type machine struct {
	mu    sync.Mutex
	marks []mark
}

// mark is the total waiting time up to a moment.
type mark struct {
	at    time.Time
	stood time.Duration // measured by ticks that came late: nothing ran
	kept  time.Duration // counted by the kernel: at least one process had to wait
}

const (
	markEvery = 20 * time.Millisecond
	// A process that shares a processor still makes progress, so not all the time that the kernel counts is
	// an excuse.
	mostKept = 4 * time.Second
)

func watchMachine(t *testing.T) *machine {
	m := &machine{marks: []mark{{at: time.Now(), kept: pressure()}}}
	stop, stopped := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		<-stopped
	})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(markEvery)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				m.mark(time.Now(), pressure())
			}
		}
	}()
	return m
}

func (m *machine) mark(at time.Time, kept time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.marks[len(m.marks)-1]
	late := max(at.Sub(before.at)-2*markEvery, 0)
	m.marks = append(m.marks, mark{at, before.stood + late, kept})
}

// allowance is how much longer than on an idle machine something can have taken between two times.
func (m *machine) allowance(from, to time.Time) time.Duration {
	a, b := m.around(from, to)
	return max(b.stood-a.stood, min(b.kept-a.kept, mostKept))
}

// busy says that processes had to wait for nine tenths of the time between two times.
func (m *machine) busy(from, to time.Time) bool {
	a, b := m.around(from, to)
	return b.kept-a.kept > b.at.Sub(a.at)*9/10
}

// stood is for how long no process ran between two times.
func (m *machine) stood(from, to time.Time) time.Duration {
	a, b := m.around(from, to)
	return b.stood - a.stood
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
	for _, c := range []struct {
		from, to, want time.Duration
	}{
		{0, 20 * time.Millisecond, 0},
		{time.Second, 2 * time.Second, 3 * time.Second},
		{3070 * time.Millisecond, 3075 * time.Millisecond, 500 * time.Millisecond},
		{4 * time.Second, 59 * time.Second, mostKept},
		{0, time.Hour, mostKept},
	} {
		if got := m.allowance(at(c.from), at(c.to)); got != c.want {
			t.Errorf("from %s to %s: allowed %s, want %s", c.from, c.to, got, c.want)
		}
	}
}
