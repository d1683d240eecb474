package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
)

// plan is a job that the generator submits, and the command that a caller sends for it later.
type plan struct {
	check.Job
	work   Work
	manner string // of a command body
	then   check.Verb
	at     time.Duration // from the answer to the submit until then
	lasts  time.Duration // of a pause
}

const retryDelay = 200 * time.Millisecond

var everyOverlap = []carillon.Overlap{
	carillon.OverlapSkip, carillon.OverlapQueue, carillon.OverlapQueueAll, carillon.OverlapReplace,
	carillon.OverlapAllow,
}

// newPlan chooses a job of any kind.
func newPlan(rnd *rand.Rand, n int) plan {
	p := plan{Job: check.Job{Key: fmt.Sprintf("t%d", n), Overlap: carillon.OverlapSkip, Delay: retryDelay}}
	ms := func(from, to int) time.Duration { return time.Duration(from+rnd.IntN(to-from)) * time.Millisecond }
	takes := ms(0, 30)
	switch kind := rnd.IntN(100); {
	case kind < 2:
		p.Commands, takes = true, ms(0, 250)
		p.manner = []string{"", "", mannerStubborn, mannerForks, mannerOtherUID}[rnd.IntN(5)]
		if p.manner == mannerStubborn && rnd.IntN(2) == 0 {
			p.then, p.at, takes = check.VerbCancel, ms(200, 2000), 20*time.Second
		}
	case kind < 4:
		p.Fatal, p.then, p.at = true, check.VerbRedrive, ms(1000, 3000)
	case kind < 9:
		p.Fails = 1 + rnd.Int32N(2)
	case kind < 17:
		p.recur(rnd)
		takes = []time.Duration{takes, takes, ms(1200, 1800)}[rnd.IntN(3)]
		if rnd.IntN(4) == 0 {
			p.then, p.at = check.VerbRunNow, ms(500, 3000)
		}
	case kind < 20:
		p.then, p.at = check.VerbCancel, ms(0, 2500)
		switch rnd.IntN(3) {
		case 0:
			p.After = ms(0, 4000)
		case 1:
			p.recur(rnd)
		case 2:
			takes = ms(1000, 4000)
		}
	case kind < 22:
		p.then, p.at, p.lasts = check.VerbPause, ms(0, 2000), ms(500, 3000)
		if p.After = ms(500, 4000); rnd.IntN(2) == 0 {
			p.recur(rnd)
		}
	case kind < 24:
		p.then, p.at = check.VerbEdit, ms(0, 3000)
		if p.After = ms(500, 4000); rnd.IntN(2) == 0 {
			p.recur(rnd)
		}
	case kind < 27:
		takes = ms(1000, 4000) // so long that faults find it running
	case kind < 50:
		p.After = ms(0, 8000)
	}
	p.work = Work{
		For: carillon.Duration(takes), Fails: p.Fails, Fatal: p.Fatal, Version: 1, Overlap: p.Overlap,
	}
	return p
}

func (p *plan) recur(rnd *rand.Rand) {
	p.Every, p.MaxRuns = time.Second, 2+rnd.IntN(3)
	p.After, p.Overlap = p.Every, everyOverlap[rnd.IntN(len(everyOverlap))]
}

// define is the job as a caller submits it.
func (tr *trial) define(p *plan) carillon.Definition {
	def := handledJob("default", p.work)
	if p.Commands {
		def = tr.commandJob("commands", p.work.For.Std())
		env := def.Target.Command.Env
		env["WITNESS_REGISTER"], env["WITNESS_EVERY"], env["WITNESS_MANNER"] = tr.socket, "50ms", p.manner
	}
	def.Name, def.Overlap = p.Key, p.Overlap
	if last := p.Key[len(p.Key)-1:]; last < "5" { // a digit
		def.FairBy, def.FairWeight = "share-"+last, 1+int32(len(p.Key)%3)
	}
	def.Retry.Delay, def.Retry.Backoff = carillon.Duration(retryDelay), carillon.BackoffFixed
	if p.Every > 0 {
		def.Schedule.Every, def.Schedule.MaxRuns = carillon.Duration(p.Every), p.MaxRuns
	} else if p.After > 0 {
		def.Schedule.After = carillon.Duration(p.After)
	}
	return def
}

// generateEvery is the distance between two batches of the generator.
const generateEvery = 50 * time.Millisecond

// generate submits jobs at times that the seed and the rate fix. It does not wait for answers, unless too
// many commands are in flight.
func (tr *trial) generate(rnd *rand.Rand) {
	for n, at := 0, time.Duration(0); at < tr.length && tr.ctx.Err() == nil; at += generateEvery {
		last(tr.ctx, time.Until(tr.began.Add(at)))
		var batch []plan
		for ; float64(n) < *rate*(at+generateEvery).Seconds(); n++ {
			batch = append(batch, newPlan(rnd, n))
		}
		tr.flight <- struct{}{}
		late := time.Since(tr.began.Add(at))
		tr.mu.Lock()
		tr.delays = append(tr.delays, late)
		first := len(tr.plans)
		tr.plans = append(tr.plans, batch...)
		tr.mu.Unlock()
		tr.follows.Go(func() {
			defer func() { <-tr.flight }()
			tr.submitAll(first, batch)
		})
	}
}
