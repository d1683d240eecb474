package executor

import "time"

// host is what a worker remembers about a host that http targets call. It holds the two rules that spare a
// host in trouble. The retry budget bounds retries to a share of the first requests. The circuit stops all
// requests but a probe now and then while the host does not answer. The methods are pure: the caller passes
// time and chance. See docs/decisions/0055.
type host struct {
	tokens float64   // the retries that can be sent now
	filled time.Time // up to when time has added to them

	good     int           // requests in a row that the host answered well
	failures int           // requests in a row that say that the host is dead or overloaded
	last     string        // why the last of these failed
	open     bool          // the circuit is open: only probes are sent
	cool     time.Duration // how long the host was, or is, left alone; 0: it has been well for a while
	until    time.Time     // no probe before, if the circuit is open

	turn time.Time // when the next run that has to wait comes back, if others wait too
}

const (
	// A host has fewTokens at first, and time adds one every tokenEvery, but never more than fewTokens in
	// all: so a host that is rarely called gets its few retries too. First requests can add up to maxTokens.
	// While a host is well, its last wellAfter requests were answered well, and retries need no token: those
	// that waited for the end of an outage do not have to wait for each other.
	fewTokens  = 10
	tokenEvery = 10 * time.Second
	maxTokens  = 100
	wellAfter  = 50

	// The circuit opens after maxFailures in a row. minCool is how long it then leaves the host alone, twice
	// as long after each probe that fails, and maxCool at most. A host can ask for up to maxPause.
	maxFailures = 10
	minCool     = time.Second
	maxCool     = time.Minute
	maxPause    = 5 * time.Minute

	// A run that has to wait costs the store two commits each time that it comes back. So the runs that wait
	// for a host take turns, one every turnEvery; those for which there is no turn within maxWait come back
	// between half of it and maxWait. A retry without a token waits for minRetryWait at least.
	turnEvery    = 10 * time.Millisecond
	minWait      = 100 * time.Millisecond
	minRetryWait = 5 * time.Second
	maxWait      = 10 * time.Minute
)

func newHost(now time.Time) *host { return &host{tokens: fewTokens, filled: now} }

// permit says whether a request can be sent now.
type permit struct {
	wait  time.Duration // not now: the run comes back after so long. 0: now
	probe bool          // it is sent although the circuit is open, to see how the host is
}

// ask decides about a request at now. retry says that the run has failed before, share is that of retries in
// the first requests, random is from [0,1).
func (h *host) ask(retry bool, share float64, now time.Time, random float64) permit {
	h.fill(now)
	switch {
	case h.open && now.Before(h.until):
		return permit{wait: h.wait(h.until, now, random)}
	case h.open:
		// One probe is sent in each cool-down, even if the one before it has not ended: it may take hours.
		h.until = now.Add(h.cool)
		h.spend(retry, share)
		return permit{probe: true}
	case retry && h.tokens < 1 && h.good < wellAfter:
		missing := time.Duration((1 - h.tokens) * float64(tokenEvery))
		return permit{wait: h.wait(now.Add(max(missing, minRetryWait)), now, random)}
	}
	h.spend(retry, share)
	return permit{}
}

// fill adds the tokens that come with time.
func (h *host) fill(now time.Time) {
	if add := float64(now.Sub(h.filled)) / float64(tokenEvery); add > 0 && h.tokens < fewTokens {
		h.tokens = min(h.tokens+add, fewTokens)
	}
	h.filled = now
}

// spend takes the token of a retry, or adds what a first request is worth. Probes, and retries while the host
// is well, can be sent without a token.
func (h *host) spend(retry bool, share float64) {
	switch {
	case !retry:
		h.tokens = min(h.tokens+share, maxTokens)
	case h.good < wellAfter:
		h.tokens = max(h.tokens-1, 0)
	}
}

// wait is how long a run waits that can come back at from. The more runs wait for the host, the longer.
func (h *host) wait(from, now time.Time, random float64) time.Duration {
	at := now.Add(minWait)
	for _, later := range []time.Time{from, h.turn} {
		if later.After(at) {
			at = later
		}
	}
	wait := at.Sub(now)
	if wait > maxWait {
		return maxWait/2 + time.Duration(random*float64(maxWait/2))
	}
	h.turn = at.Add(turnEvery)
	return wait + time.Duration(random*float64(wait)/10) // other workers have the same turns
}

// health is what a request says about its host.
type health uint8

const (
	healthUnknown health = iota // it was broken off here, or never sent
	healthWell                  // the host has done what it was asked, or refused it for good
	healthIll                   // the host has answered, but the request has to be repeated
	healthDead                  // dead or overloaded: no answer, or one that asks for fewer requests
)

// ended counts a request that has ended at now. pause is what the host asked for, if anything.
func (h *host) ended(is health, why string, p permit, pause time.Duration, now time.Time) {
	switch is {
	case healthUnknown:
		return
	case healthWell:
		h.good++
	default:
		h.good = 0
	}
	switch is {
	case healthWell, healthIll:
		// Runs that have a turn keep it; a later outage begins with the first one again.
		h.open, h.failures, h.last, h.turn = false, 0, "", time.Time{}
		if h.cool /= 2; h.cool < minCool { // not at once: a host that comes and goes is left alone longer
			h.cool = 0
		}
	case healthDead:
		h.failures++
		h.last = why
		if h.open && !p.probe || !h.open && h.failures < maxFailures {
			return // it was under way when the circuit opened, or it is one of few
		}
		h.open = true
		h.cool = min(max(2*h.cool, minCool), maxCool)
		h.until = now.Add(max(h.cool, min(pause, maxPause)))
	}
}
