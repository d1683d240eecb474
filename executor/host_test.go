package executor

import (
	"container/heap"
	"flag"
	"math/rand/v2"
	"testing"
	"time"
)

var seed = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one")

func draw(t *testing.T) *rand.Rand {
	t.Helper()
	drawn := *seed
	if drawn == 0 {
		drawn = rand.Uint64()
	}
	t.Logf("repeat with -seed %d", drawn)
	return rand.New(rand.NewPCG(drawn, 0))
}

// start is when the hosts of these tests are first called.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fails lets so many requests in a row fail.
func (h *host) fails(n int, now time.Time) {
	for range n {
		h.ended(healthDead, "no answer", permit{}, 0, now)
	}
}

// retries sends retries until one has to wait, and says how many were sent.
func (h *host) retries(now time.Time) (sent int) {
	for sent < 1000*maxTokens && h.ask(true, 0.1, now, 0) == (permit{}) {
		sent++
	}
	return sent
}

func TestARetryNeedsATokenWhichTenFirstRequestsOrTenSecondsBring(t *testing.T) {
	h := newHost(start)
	for range fewTokens {
		if p := h.ask(true, 0.1, start, 0); p != (permit{}) {
			t.Fatalf("one of the first retries: %+v", p)
		}
	}
	if p := h.ask(true, 0.1, start, 0); p != (permit{wait: 10 * time.Second}) {
		t.Errorf("a retry without a token: %+v", p)
	}
	for range 11 {
		if p := h.ask(false, 0.1, start, 0); p != (permit{}) {
			t.Fatalf("a first request: %+v", p)
		}
	}
	if p := h.ask(true, 0.1, start, 0); p != (permit{}) {
		t.Errorf("a retry after eleven first requests: %+v", p)
	}
	if p := h.ask(true, 0.1, start, 0); p.wait < minRetryWait {
		t.Errorf("a second one: %+v", p)
	}
	if p := h.ask(true, 0.1, start.Add(tokenEvery), 0); p != (permit{}) {
		t.Errorf("a retry ten seconds later: %+v", p)
	}
	if sent := h.retries(start.Add(24 * time.Hour)); sent != fewTokens {
		t.Errorf("%d retries at once after a day without requests, want %d", sent, fewTokens)
	}
	for range 100_000 {
		h.ask(false, 0.1, start.Add(24*time.Hour), 0)
	}
	if sent := h.retries(start.Add(24 * time.Hour)); sent != maxTokens {
		t.Errorf("%d retries at once after 100,000 first requests, want %d", sent, maxTokens)
	}
}

func TestWhileAHostIsWellRetriesNeedNoToken(t *testing.T) {
	h := newHost(start)
	h.retries(start)
	for range wellAfter - 1 {
		h.ended(healthWell, "", permit{}, 0, start)
	}
	if p := h.ask(true, 0.1, start, 0); p.wait == 0 {
		t.Errorf("a retry after %d good answers: %+v", wellAfter-1, p)
	}
	h.ended(healthWell, "", permit{}, 0, start)
	for range 1000 {
		if p := h.ask(true, 0.1, start, 0); p != (permit{}) {
			t.Fatalf("a retry after %d good answers: %+v", wellAfter, p)
		}
	}
	for _, is := range []health{healthIll, healthDead} {
		h.good = wellAfter
		h.ended(is, "no", permit{}, 0, start)
		if p := h.ask(true, 0.1, start, 0); p.wait == 0 {
			t.Errorf("a retry after a failure: %+v", p)
		}
	}
}

func TestTheCircuitOpensAfterFailuresInARowAndClosesWithAnAnswer(t *testing.T) {
	h, now := newHost(start), start
	h.fails(maxFailures-1, now)
	h.ended(healthIll, "", permit{}, 0, now)
	h.fails(maxFailures-1, now)
	h.ended(healthUnknown, "stopped on request", permit{}, 0, now)
	if p := h.ask(false, 0.1, now, 0); p != (permit{}) {
		t.Fatalf("after %d failures: %+v", maxFailures-1, p)
	}
	h.fails(1, now)
	if p := h.ask(false, 0.1, now, 0); p != (permit{wait: time.Second}) {
		t.Errorf("after %d failures: %+v", maxFailures, p)
	}
	h.fails(50, now) // they were under way: they do not make the host's rest longer
	probes := []time.Duration{}
	for range 8 {
		for h.ask(false, 0.1, now, 0).wait > 0 && now.Before(start.Add(time.Hour)) {
			now = now.Add(time.Second)
		}
		if p := h.ask(false, 0.1, now, 0); p.wait == 0 {
			t.Fatalf("a second request beside a probe: %+v", p)
		}
		probes = append(probes, now.Sub(start))
		h.ended(healthDead, "no answer", permit{probe: true}, 0, now)
	}
	want := []time.Duration{1, 3, 7, 15, 31, 63, 123, 183}
	for i := range want {
		if probes[i] != want[i]*time.Second {
			t.Errorf("probes at %v, want seconds %v", probes, want)
			break
		}
	}
	h.ended(healthWell, "", permit{}, 0, now) // even if it is none of the probes
	for range 100 {
		if p := h.ask(false, 0.1, now, 0); p != (permit{}) {
			t.Fatalf("after an answer: %+v", p)
		}
	}
	h.fails(maxFailures, now)
	if got := h.until.Sub(now); got != time.Minute {
		t.Errorf("a host that came for one answer rests %s, want a minute", got)
	}
	for range 10 {
		h.ended(healthWell, "", permit{}, 0, now)
	}
	h.fails(maxFailures, now)
	if got := h.until.Sub(now); got != time.Second {
		t.Errorf("a host that was well for ten answers rests %s, want a second", got)
	}
}

func TestAProbeThatDoesNotEndIsFollowedByAnother(t *testing.T) {
	h := newHost(start)
	h.fails(maxFailures, start)
	for i := range 3 {
		now := start.Add(time.Duration(i+1) * time.Second)
		if p := h.ask(false, 0.1, now, 0); p != (permit{probe: true}) {
			t.Errorf("probe %d: %+v", i, p)
		}
	}
}

func TestAHostThatAsksForAPauseGetsItUpToFiveMinutes(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{
		0: time.Second, 30 * time.Second: 30 * time.Second, 24 * time.Hour: 5 * time.Minute,
	} {
		h := newHost(start)
		h.fails(maxFailures-1, start)
		h.ended(healthDead, "HTTP 429 Too Many Requests", permit{}, asked, start)
		if p := h.ask(false, 0.1, start, 0); p != (permit{wait: want}) {
			t.Errorf("it asked for %s: %+v", asked, p)
		}
	}
}

func TestTheMoreRunsWaitForAHostTheLongerEachWaits(t *testing.T) {
	h := newHost(start)
	h.fails(maxFailures, start)
	var last time.Duration
	for i := range 100_000 {
		wait := h.ask(false, 0.1, start, 0.5).wait
		if wait > maxWait+maxWait/10 || wait < minWait {
			t.Fatalf("run %d waits %s", i, wait)
		}
		switch i {
		case 0, 100, 10_000:
			want := time.Second + time.Duration(i)*turnEvery
			if want += want / 20; wait != want {
				t.Errorf("run %d waits %s, want %s", i, wait, want)
			}
		}
		last = wait
	}
	if last != maxWait*3/4 {
		t.Errorf("the last one waits %s, want %s", last, maxWait*3/4)
	}
}

// flood plays runs against one host. Each run is tried maxAttempts times.
type flood struct {
	host    *host
	random  *rand.Rand
	answers func() health
	runs    comings

	asked, firsts, retries, probes int
	perSecond                      map[int]int // asks, by second since start
	succeeded, failed              int
	end                            time.Time
}

type coming struct {
	at       time.Time
	failures int
	request  *permit // it is under way, and ends then
}

type comings []*coming

func (c comings) Len() int           { return len(c) }
func (c comings) Less(i, k int) bool { return c[i].at.Before(c[k].at) }
func (c comings) Swap(i, k int)      { c[i], c[k] = c[k], c[i] }
func (c *comings) Push(x any)        { *c = append(*c, x.(*coming)) }
func (c *comings) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// play lets all runs come until a time.
func (c *flood) play(until time.Time) {
	if c.perSecond == nil {
		c.perSecond = map[int]int{}
	}
	for len(c.runs) > 0 && c.runs[0].at.Before(until) {
		r := heap.Pop(&c.runs).(*coming)
		if c.step(r) {
			heap.Push(&c.runs, r)
		} else {
			c.end = r.at
		}
	}
}

// step performs what is next for a run, and says whether it goes on.
func (c *flood) step(r *coming) bool {
	const maxAttempts = 3
	now := r.at
	if r.request == nil {
		c.asked++
		c.perSecond[int(now.Sub(start)/time.Second)]++
		p := c.host.ask(r.failures > 0, 0.1, now, c.random.Float64())
		if p.wait > 0 {
			r.at = now.Add(p.wait)
			return true
		}
		if r.failures > 0 {
			c.retries++
		} else {
			c.firsts++
		}
		if p.probe {
			c.probes++
		}
		r.request, r.at = &p, now.Add(time.Duration(1+c.random.IntN(200))*time.Millisecond)
		return true
	}
	is := c.answers()
	c.host.ended(is, "no", *r.request, 0, now)
	r.request = nil
	if is == healthWell {
		c.succeeded++
		return false
	}
	if r.failures++; r.failures == maxAttempts {
		c.failed++
		return false
	}
	r.at = now.Add(time.Duration(r.failures) * time.Second)
	return true
}

// come adds n runs, spread over a time.
func (c *flood) come(n int, from time.Time, over time.Duration) {
	for i := range n {
		heap.Push(&c.runs, &coming{at: from.Add(over * time.Duration(i) / time.Duration(n))})
	}
}

func TestAFloodForADeadHostIsAFewProbesAndDoesNotTroubleTheStore(t *testing.T) {
	back := start.Add(time.Hour)
	c := &flood{
		host: newHost(start), random: draw(t), answers: func() health { return healthDead },
	}
	const runs = 10_000
	c.come(runs, start, 10*time.Second)
	c.play(back)
	// 1000 come in a second, and a request takes up to 0.2 s: these are under way when the circuit opens.
	if sent := c.firsts + c.retries; sent > 300 || c.probes > 70 {
		t.Errorf("%d requests in an hour, with %d probes", sent, c.probes)
	}
	for second, asks := range c.perSecond {
		if second > 11 && asks > 150 {
			t.Errorf("in second %d runs were claimed %d times", second, asks)
		}
	}
	if c.asked > runs*(3600/60) {
		t.Errorf("each run was claimed %d times in an hour", c.asked/runs)
	}
	c.answers = func() health { return healthWell }
	c.play(back.Add(time.Hour))
	if late := c.end.Sub(back); c.succeeded+c.failed != runs || late > 5*time.Minute {
		t.Errorf("%d runs succeeded and %d failed, the last one %s after the host was back",
			c.succeeded, c.failed, late)
	}
	if c.failed > 50 {
		t.Errorf("%d runs failed, though only probes and the first requests could", c.failed)
	}
}

func TestAHalfBrokenHostGetsATenthMoreRequests(t *testing.T) {
	random := draw(t)
	const minutes, a = 5, 100 // runs a second
	for _, percent := range []int{20, 50, 80} {
		for _, bad := range []health{healthIll, healthDead} {
			c := &flood{host: newHost(start), random: random, answers: func() health {
				if random.IntN(100) < percent {
					return bad
				}
				return healthWell
			}}
			c.come(minutes*60*a, start, minutes*time.Minute)
			c.play(start.Add(minutes * time.Minute))
			// The hundredth is for the moments in which the host is well.
			most := c.firsts/10 + c.firsts/100 + fewTokens + minutes*6 + c.probes
			least := c.firsts / 10
			if bad == healthIll && c.firsts != minutes*60*a || c.retries > most || c.retries < least {
				t.Errorf("%d%% are bad: %d first requests and %d retries, want %d to %d",
					percent, c.firsts, c.retries, least, most)
			}
		}
	}
}

func TestWhateverHappensAHostKeepsItsRules(t *testing.T) {
	random := draw(t)
	for range 300 {
		share := random.Float64()
		h, now := newHost(start), start
		var firsts, retries, probes int
		var last time.Time // of the last request while the circuit was open
		var under []permit
		for range 2000 {
			now = now.Add(time.Duration(random.ExpFloat64() * float64(time.Second) * random.Float64()))
			if len(under) > 0 && random.IntN(2) == 0 {
				i := random.IntN(len(under))
				p, is := under[i], health(random.IntN(4))
				if random.IntN(3) > 0 {
					is = healthDead
				}
				under = append(under[:i], under[i+1:]...)
				h.ended(is, "no", p, time.Duration(random.IntN(3))*time.Second, now)
				if (is == healthWell || is == healthIll) && h.open {
					t.Fatalf("open after an answer: %+v", h)
				}
				continue
			}
			open, until, cool, well := h.open, h.until, h.cool, h.good >= wellAfter
			retry := random.IntN(3) == 0
			p := h.ask(retry, share, now, random.Float64())
			if p.wait > 0 {
				if p.probe || p.wait < minWait || p.wait > maxWait+maxWait/10 {
					t.Fatalf("%+v of %+v", p, h)
				}
				if !open && !retry {
					t.Fatalf("a first request waits although the circuit is closed: %+v", h)
				}
				continue
			}
			if open != p.probe || open && (now.Before(until) || now.Sub(last) < min(cool, minCool)) {
				t.Fatalf("%+v at %s, the last one at %s, open: %v until %s", p, now, last, open, until)
			}
			under = append(under, p)
			switch {
			case p.probe:
				probes++
				last = now
			case retry && !well:
				retries++
			}
			if !retry {
				firsts++
			}
			most := share*float64(firsts) + fewTokens + float64(now.Sub(start))/float64(tokenEvery)
			if float64(retries) > most+1e-6 {
				t.Fatalf("%d retries, %d first requests, %d probes, share %v", retries, firsts, probes, share)
			}
			if h.tokens < 0 || h.tokens > maxTokens {
				t.Fatalf("%v tokens", h.tokens)
			}
		}
	}
}
