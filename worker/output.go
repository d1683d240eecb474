package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

const (
	// flushLines is how many lines the goroutine that prints them reports at once by itself: so a run that
	// prints faster than the record loop reports waits for the log store.
	flushLines = 1000
	// maxHeldLines bounds the lines of an attempt that are kept while the log store does not take them.
	maxHeldLines = 10_000
	// remarkRoom is room beside them for what Carillon says about the attempt, such as where its output is
	// cut.
	remarkRoom = 300 // a panic alone can have some 200
)

// remark is the stream of lines of Carillon itself.
const remark = "carillon"

// output collects the lines of one attempt on their way to the log store.
type output struct {
	clock   *carillon.Clock
	mu      sync.Mutex
	lines   []carillon.Line
	away    []carillon.Line // lines that are being reported
	back    *sync.Cond      // the report has returned
	next    int64           // offset of the next line
	dropped int64
}

// print takes one line. A run that prints faster than the log store takes lines waits for it, for a moment.
// A log store that takes nothing, such as a full disk, does not stop the run: lines for which there is no
// room are dropped, and a line in their place says how many. For an attempt that has to stop, the record
// loop reports alone.
func (a *attempt) print(ctx context.Context, stream, text string) {
	if a.out.add(stream, text) && ctx.Err() == nil {
		r := protocol.Report{Held: a.Held(), Token: a.Token, Lines: a.out.take()}
		if len(r.Lines) == 0 {
			return
		}
		receipts, err := a.w.cfg.Dispatcher.Report(ctx, a.w.ID(), []protocol.Report{r})
		a.out.taken(r.Lines, err == nil && receipts[0] != protocol.ReceiptAgain)
	}
}

// add keeps a line and says whether it is time to report.
func (o *output) add(stream, text string) (full bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	room := maxHeldLines
	if stream == remark {
		room += remarkRoom
	}
	fits := func() bool { return len(o.lines)+len(o.away) < room }
	if o.dropped == 0 { // otherwise it has waited in vain
		o.waitUntil(fits)
	}
	if !fits() {
		o.dropped++
		return false
	}
	o.sayDropped()
	o.append(stream, text)
	return len(o.lines)%flushLines == 0
}

// sayDropped adds a line, in the place of dropped lines, that says how many they are. The caller holds mu.
func (o *output) sayDropped() {
	if o.dropped > 0 {
		o.append(
			remark, fmt.Sprintf("%d lines are missing here: the log store did not take them", o.dropped),
		)
		o.dropped = 0
	}
}

func (o *output) append(stream, text string) {
	o.lines = append(o.lines, carillon.Line{At: o.clock.Now(), Stream: stream, Text: text, Offset: o.next})
	o.next++
}

// take lends out the printed lines, in order. It returns none while earlier lines are still being reported.
func (o *output) take() []carillon.Line {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.away) > 0 {
		return nil
	}
	o.lines, o.away = nil, o.lines
	return o.away
}

// taken ends the loan of lines: either they have been kept, or they go back to be reported again.
func (o *output) taken(lines []carillon.Line, kept bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(lines) == 0 {
		return
	}
	o.away = nil
	if !kept {
		o.lines = append(lines, o.lines...)
	}
	if o.back != nil {
		o.back.Broadcast()
	}
}

// rest is the lines that are left when nothing more will be printed. If lines are still being reported, they
// are among the rest, and can be reported twice.
func (o *output) rest() []carillon.Line {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waitUntil(func() bool { return len(o.away) == 0 })
	o.sayDropped()
	if len(o.away) > 0 {
		return slices.Concat(o.away, o.lines)
	}
	return o.lines
}

// outage is how long the log store can fail, or be busy with what other runs print, before waitUntil gives
// up.
const outage = 2 * time.Second

// waitUntil waits for reports of lines, until something is true, but not for an outage. The caller holds mu.
func (o *output) waitUntil(done func() bool) {
	if done() {
		return
	}
	if o.back == nil {
		o.back = sync.NewCond(&o.mu)
	}
	late := false
	timer := time.AfterFunc(outage, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		late = true
		o.back.Broadcast()
	})
	defer timer.Stop()
	for !done() && !late {
		o.back.Wait()
	}
}
