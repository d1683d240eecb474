package carillon

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"
)

// counter is the value of the guard of a limit. Every claim and every end with a limit reads and writes it,
// so it is not JSON but five numbers, in this order.
type counter struct {
	Used int64 // slots that attempts have taken
	// Line says that runs may wait in the line (1): a run that comes now waits behind them. Lined counts the
	// runs that ever got into the line. So a reader that found the line empty can tell whether it still is.
	Line  int64
	Lined int64
	// Claims counts all claims. So a claim and an end that are written together change the guard too.
	Claims int64
	// Next is when the next start would be by the rate alone, if every start had come as late as it may, in
	// nanoseconds. Starts can come Burst before it.
	Next int64
}

// limitTime is how long the guard of a limit that nothing uses is kept.
const limitTime = time.Hour

func counterOf(g *Guard) (c counter) {
	if len(g.Value) == 0 {
		return c
	}
	rest, ok := g.Value, false
	for _, n := range [...]*int64{&c.Used, &c.Line, &c.Lined, &c.Claims, &c.Next} {
		if *n, rest, ok = cutNumber(rest); !ok { // only this file writes the value
			panic("limit guard " + g.Key + " holds " + strconv.Quote(string(g.Value)))
		}
	}
	return c
}

// cutNumber reads the number before the first space. It leaves only unusual numbers to strconv, which costs
// three times as much.
func cutNumber(b []byte) (n int64, rest []byte, ok bool) {
	for i, c := range b {
		switch digit := int64(c) - '0'; {
		case c == ' ':
			return n, b[i+1:], i > 0
		case digit < 0 || digit > 9 || n > (math.MaxInt64-digit)/10:
			word, rest, _ := bytes.Cut(b, []byte{' '})
			n, err := strconv.ParseInt(string(word), 10, 64)
			return n, rest, err == nil
		default:
			n = 10*n + digit
		}
	}
	return n, nil, len(b) > 0
}

// guard is the guard with this count. A counter that changes does not expire: the audit lets it expire when
// nothing uses it. If ends did that, and claims took it back, each of them would write an index of the store.
func (c counter) guard(g Guard) Guard {
	b := make([]byte, 0, 32)
	for i, n := range []int64{c.Used, c.Line, c.Lined, c.Claims, c.Next} {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	g.Value, g.Expires = b, 0
	return g
}

// ExpireUnused is the change that lets the guard of a limit expire. It is false if runs use the limit or wait
// for it, or if the guard expires already.
func (g Guard) ExpireUnused(now Time) (Change, bool) {
	c := counterOf(&g)
	if c.Used != 0 || c.Line != 0 || g.Expires != 0 {
		return Change{}, false
	}
	g.Expires = max(now, Time(c.Next/int64(time.Millisecond))).Add(limitTime) // the rate counts longer
	return Change{Guards: []Guard{g}}, true
}

// allows says whether a run has room. waited says that the run comes from a line: others may wait behind it,
// not before it.
func (c counter) allows(l *Limit, waited bool, now Time) bool {
	switch {
	case c.Line != 0 && !waited, c.full(l):
		return false
	}
	return c.rateFree(l, now) <= now
}

// full says that there are not enough slots for one more run.
func (c counter) full(l *Limit) bool {
	return l.Concurrency > 0 && c.Used+int64(l.Weight) > int64(l.Concurrency)
}

// rateFree is when the rate allows a start of the limit's weight; 0: at any time.
func (c counter) rateFree(l *Limit, now Time) Time {
	if l.Rate.Starts == 0 {
		return 0
	}
	first := c.next(l, now) - int64(l.Burst-l.Weight)*int64(l.Rate.interval())
	return Time((first + int64(time.Millisecond) - 1) / int64(time.Millisecond))
}

// next is Next, unless it is so far ahead that the clock was set back since, or the rate was raised: then the
// count begins anew.
func (c counter) next(l *Limit, now Time) int64 {
	at := int64(now) * int64(time.Millisecond)
	if c.Next > at+int64(l.Burst)*int64(l.Rate.interval())+int64(clockSkew) {
		return at
	}
	return c.Next
}

// clockSkew is how far apart the clocks of two nodes can be.
const clockSkew = 2 * time.Second

func (c counter) take(l *Limit, now Time) counter {
	c.Claims++
	if l.Concurrency > 0 {
		c.Used += int64(l.Weight)
	}
	if l.Rate.Starts > 0 {
		interval, at := int64(l.Rate.interval()), int64(now)*int64(time.Millisecond)
		// The clock counts milliseconds. A start of a rate above 1000/s can have come at any time in one.
		earliest := at - max(0, int64(time.Millisecond)-interval)
		c.Next = max(c.next(l, now), earliest) + int64(l.Weight)*interval
	}
	return c
}

// take is the step of a claim. It refers to the limit, which is part of a definition and never changes.
func (l *Limit) take(waited bool) func(Guard, Time) (Guard, bool) {
	return func(g Guard, now Time) (Guard, bool) {
		c := counterOf(&g)
		if !c.allows(l, waited, now) {
			return g, false
		}
		return c.take(l, now).guard(g), true
	}
}

// giveSlot is the step of an end.
func giveSlot(weight int) func(Guard, Time) (Guard, bool) {
	return func(g Guard, _ Time) (Guard, bool) {
		c := counterOf(&g)
		c.Used = max(c.Used-int64(weight), 0)
		return c.guard(g), true
	}
}

// lineUp is the step of a run that begins to wait.
func lineUp(g Guard, _ Time) (Guard, bool) {
	c := counterOf(&g)
	c.Line, c.Lined = 1, c.Lined+1
	return c.guard(g), true
}

// takeSlots lets a claim take what the limits of the run ask for. was is the run before its claim.
func (c *Change) takeSlots(limits []Limit, was *Run) {
	if len(limits) == 0 {
		return
	}
	run := &c.Runs[0]
	run.Slots = ""
	for i := range limits {
		l := &limits[i]
		hold, take := l.Hold(), l.take(was.waitedFor(l))
		c.Folds = append(c.Folds, Fold{Namespace: run.Namespace, Key: hold, Step: take})
		if l.Concurrency == 0 {
			continue
		}
		if run.Slots != "" {
			run.Slots += "\n"
		}
		run.Slots += slot{strings.TrimPrefix(hold, string(GuardLimit)+"/"), l.Weight}.String()
	}
}

// giveBack returns the slots that the attempt of a run has taken.
func (c *Change) giveBack(run *Run) {
	for s := range run.slots() {
		c.Folds = append(c.Folds, Fold{
			Namespace: run.Namespace, Key: string(GuardLimit) + "/" + s.limit, Step: giveSlot(s.weight),
		})
	}
	run.Slots = ""
}

// slot is what an attempt has taken of one limit. Run.Slots has one in each line: the name of the limit, and
// behind a star the weight if that is not 1. No name has a star.
type slot struct {
	limit  string
	weight int
}

func (s slot) String() string {
	if s.weight == 1 {
		return s.limit
	}
	return s.limit + "*" + strconv.Itoa(s.weight)
}

func (r *Run) slots() iter.Seq[slot] {
	return func(yield func(slot) bool) {
		for rest := r.Slots; rest != ""; {
			var text string
			text, rest, _ = strings.Cut(rest, "\n")
			limit, weight, weighted := strings.Cut(text, "*")
			s := slot{limit, 1}
			if weighted {
				if n, err := strconv.Atoi(weight); err == nil {
					s.weight = n
				}
			}
			if !yield(s) {
				return
			}
		}
	}
}

// waitedFor says that the run need not go behind the line of a limit: it comes from that line. A run that was
// parked in another line has waited too: if it had to go to the end of the next line each time, it could go
// from one to the other for ever.
func (r *Run) waitedFor(l *Limit) bool {
	return r.Has(FlagParked) || r.Hold != "" && r.Hold == l.Hold()
}

// full is the first limit that has no room for the run, by the guards of its limits.
func (d *Candidate) full(now Time) *Limit {
	for i := range d.Limits {
		l := &d.Limits[i]
		if c := d.counter(l); !c.allows(l, d.Run.waitedFor(l), now) {
			return l
		}
	}
	return nil
}

// HeldBy says in words what a parked run waits for, as in "limit customer-42: 3 of 3 slots are taken".
func (d *Candidate) HeldBy(now Time) string {
	if d.Run.heldByGate() {
		return d.heldByGate(now)
	}
	words, is := LimitHold(d.Run.Hold)
	if !is {
		return d.Run.Hold
	}
	for i := range d.Limits {
		l := &d.Limits[i]
		if l.Hold() != d.Run.Hold {
			continue
		}
		c := d.counter(l)
		switch free := c.rateFree(l, now); {
		case c.full(l) && l.Weight > 1:
			return fmt.Sprintf("%s: %d of %d slots are taken, and it needs %d", words, c.Used, l.Concurrency,
				l.Weight)
		case c.full(l):
			return fmt.Sprintf("%s: %d of %d slots are taken", words, c.Used, l.Concurrency)
		case free > now:
			return fmt.Sprintf("%s: the next start by its rate of %s is at %s", words, l.Rate, free)
		}
		return words + ": it is about to start, or others wait before it"
	}
	return words + ", which its job no longer has: it is about to start"
}

// counter is what the guard of one of the candidate's limits counts.
func (d *Candidate) counter(l *Limit) (c counter) {
	for k := range d.Counters {
		if d.Counters[k].Key == l.Hold() {
			c = counterOf(&d.Counters[k])
		}
	}
	return c
}

// Park makes a waiting run wait in a line, without a wake.
func (r Run) Park(hold string) Change {
	r.Hold, r.Wake, r.Flags = hold, Never, r.Flags|FlagParked
	return Change{Runs: []Run{r}, Folds: []Fold{{Namespace: r.Namespace, Key: hold, Step: lineUp}}}
}

// LimitLine says which runs of the line of a limit can start.
type LimitLine struct {
	name  HoldName
	count counter
	// Free is when the rate allows the next start, if the rate is in the way; else zero.
	Free Time
}

// LimitLineOf is the line of a limit whose guard is given; a guard without a Value if there is none.
func LimitLineOf(name HoldName, guard *Guard) *LimitLine {
	return &LimitLine{name: name, count: counterOf(guard)}
}

// Next says whether the next run of the line can start now, beside those before it. Once it says no, the runs
// behind that one wait too. A run that no worker takes (taken: false) holds up no other run, unless the line
// has a single slot: then its order counts.
func (l *LimitLine) Next(d *Candidate, taken bool, now Time) bool {
	for i := range d.Limits {
		limit := &d.Limits[i]
		if limit.Hold() != l.name.Hold {
			continue
		}
		if !l.count.allows(limit, true, now) {
			if free := l.count.rateFree(limit, now); free > now {
				l.Free = free
			}
			return false
		}
		if taken || limit.Concurrency == 1 {
			l.count = l.count.take(limit, now)
		}
	}
	return true
}

// Closed is the change that notes that the line is empty: runs that come from now on do not wait for others.
// If a run lined up meanwhile, the guard stays as it is. It is false if there is nothing to note.
func (l *LimitLine) Closed() (Change, bool) {
	if l.count.Line == 0 {
		return Change{}, false
	}
	lined := l.count.Lined
	return Change{Folds: []Fold{{
		Namespace: l.name.Namespace, Key: l.name.Hold, Step: func(g Guard, _ Time) (Guard, bool) {
			c := counterOf(&g)
			if c.Line == 0 || c.Lined != lined {
				return g, true
			}
			c.Line = 0
			return c.guard(g), true
		},
	}}}, true
}

// HasLine says that the guard is of a limit, and that runs may wait in its line.
func (g *Guard) HasLine() bool {
	return g.Kind() == GuardLimit && len(g.Value) > 0 && counterOf(g).Line != 0
}

// Used is how many slots of limits are taken, by the key of the limit's guard.
type Used map[HoldName]int

// Add counts the slots that the attempt of a run has taken.
func (u Used) Add(run *Run) {
	for s := range run.slots() {
		u[HoldName{run.Namespace, string(GuardLimit) + "/" + s.limit}] += s.weight
	}
}

// Of is how many slots of the limit of a guard runs have taken.
func (u Used) Of(guard *Guard) int { return u[HoldName{guard.Namespace, guard.Key}] }

// UsedSlots is how many slots the guard of a limit counts.
func (g *Guard) UsedSlots() int { return int(counterOf(g).Used) }

// Correct is the change that sets a guard that differs right, unless it has changed meanwhile.
func (u Used) Correct(guard Guard) Change {
	c := counterOf(&guard)
	c.Used = int64(u.Of(&guard))
	return Change{Guards: []Guard{c.guard(guard)}}
}
