package executor

import (
	"cmp"
	"container/list"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// DefaultRetryBudget is the share of retries in the first requests to a host.
const DefaultRetryBudget = 0.1

const (
	// maxHosts bounds the memory, because any caller can make up names of hosts. The worker forgets the host
	// that it has not been asked about for longest.
	maxHosts = 10_000
	// maxHostName is that of DNS. A longer name is the name of no host, so no request is sent to it.
	maxHostName = 253
	// waitFor is how long after its due time a run waits for a host. Later an attempt that would have to wait
	// fails, so that the run ends at last.
	waitFor = 24 * time.Hour
	// wanted is how long a host whose circuit is open counts as wanted after the last run that asked: longer
	// than a run waits.
	wanted = maxWait + maxWait/2
)

// hosts are the hosts that the http targets of this worker call. Each worker process counts by itself. nil:
// every request is sent.
type hosts struct {
	share  float64
	logger *slog.Logger

	mu    sync.Mutex
	known map[address]*list.Element // of *remembered
	order list.List                 // the one that was asked about last is first
	waits int64
}

// address names a host. Namespaces are apart: what one tenant's requests provoke, such as a 429 for its key,
// must not stop the requests of another.
type address struct{ namespace, scheme, name, port string }

// remembered is a host and when it was last asked about.
type remembered struct {
	address
	*host
	asked time.Time
}

// newHosts returns nil if the share is negative.
func newHosts(share float64, logger *slog.Logger) *hosts {
	if share < 0 {
		return nil
	}
	return &hosts{
		share: cmp.Or(share, DefaultRetryBudget), logger: cmp.Or(logger, slog.Default()),
		known: map[address]*list.Element{},
	}
}

// addressOf reads the host of a URL. It makes no text anew if the URL is in lower case.
func addressOf(namespace string, u *url.URL) address {
	a := address{namespace, u.Scheme, strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), u.Port()}
	if a.port == "" {
		a.port = "80"
		if a.scheme == "https" {
			a.port = "443"
		}
	}
	return a
}

func (a address) String() string { return net.JoinHostPort(a.name, a.port) }

// own is a copy that does not keep the whole URL, whose query may hold a secret.
func (a address) own() address {
	return address{
		strings.Clone(a.namespace), strings.Clone(a.scheme), strings.Clone(a.name), strings.Clone(a.port),
	}
}

// request is one that can be sent. The zero value is for a request that is not counted.
type request struct {
	hosts *hosts
	to    *remembered
	permit
}

// ask says whether the request of an attempt can be sent now. If not, the outcome says that the run waits: it
// is handed back, which costs no attempt.
func (hs *hosts) ask(task Task, u *url.URL) (request, *carillon.Outcome) {
	if hs == nil {
		return request{}, nil
	}
	a := addressOf(task.Run.Namespace, u)
	if len(a.name) > maxHostName {
		return request{}, nil
	}
	now := time.Now()
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.find(a, now)
	p := h.ask(task.Run.Failures > 0, hs.share, now, rand.Float64())
	if p.wait == 0 {
		return request{hs, h, p}, nil
	}
	hs.waits++
	o := carillon.Outcome{Kind: carillon.OutcomeLost, Reason: hs.why(h), RetryAfter: p.wait}
	// Both times are by the store's clock. A run that is old because it waited for a gate or a limit was not
	// handed back this often.
	if task.Run.Claimed.Sub(task.Run.ID.Due) > waitFor && task.Run.Losses >= minLosses {
		o.Kind, o.Reason = carillon.OutcomeRetriable, "not sent, and due more than a day ago: "+o.Reason
	}
	return request{}, &o
}

// find returns the host of an address, and remembers it. The caller holds mu.
func (hs *hosts) find(a address, now time.Time) *remembered {
	if e := hs.known[a]; e != nil {
		hs.order.MoveToFront(e)
		h := e.Value.(*remembered)
		h.asked = now
		return h
	}
	if len(hs.known) >= maxHosts {
		oldest := hs.order.Remove(hs.order.Back()).(*remembered)
		delete(hs.known, oldest.address)
	}
	h := &remembered{a.own(), newHost(now), now}
	hs.known[h.address] = hs.order.PushFront(h)
	return h
}

// why says why a run waits for the host. The caller holds mu.
func (hs *hosts) why(h *remembered) string {
	if h.open {
		return fmt.Sprintf(
			"%s gets no request before %s: the last %d failed (%s)", h.address,
			h.until.UTC().Format(time.RFC3339), h.failures, h.last,
		)
	}
	return fmt.Sprintf(
		"%s gets no further retry now: retries are limited to %s%% of its first requests", h.address,
		strconv.FormatFloat(math.Round(hs.share*1e4)/100, 'f', -1, 64),
	)
}

// ended counts how a request ended, by its outcome and, if the host answered with a whole response, the
// response. It returns the outcome.
func (r request) ended(o carillon.Outcome, response *http.Response) carillon.Outcome {
	if r.hosts == nil {
		return o
	}
	is := healthOf(&o, response)
	r.hosts.mu.Lock()
	was, failures := r.to.open, r.to.failures
	r.to.host.ended(is, cut(o.Reason, maxLast), r.permit, o.RetryAfter, time.Now())
	open, last := r.to.open, r.to.failures
	r.hosts.mu.Unlock() // a log that is slow must not hold up other requests
	switch {
	case open && !was:
		r.hosts.logger.Warn(
			"a host does not answer: runs wait for it", "host", r.to.address, "namespace", r.to.namespace,
			"failures", last, "error", o.Reason,
		)
	case was && !open:
		r.hosts.logger.Info(
			"the host answers again", "host", r.to.address, "namespace", r.to.namespace,
			"failures", failures,
		)
	}
	return o
}

// minLosses is how often a run was handed back at least that has waited for its host for a day.
const minLosses = 100

// maxLast is how much of a failed request's reason other runs get to see, in bytes.
const maxLast = 200

// healthOf is what an outcome says about the host. An answer of the program behind the host shows that the
// host is alive, even a 500: one job's payload can be the cause of it. The statuses of gateways, of overload
// and of rate limits ask for fewer requests.
func healthOf(o *carillon.Outcome, response *http.Response) health {
	switch again := o.Kind == carillon.OutcomeRetriable; {
	case response == nil && again: // no answer, or not in time
		return healthDead
	case response == nil: // stopped, handed back, or an address that jobs may not reach
		return healthUnknown
	case !again:
		return healthWell
	}
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		return healthDead
	}
	return healthIll
}

// figures are how many circuits of hosts that runs want to call are open, and how often a run had to wait.
func (hs *hosts) figures() (open int, waits int64) {
	if hs == nil {
		return 0, 0
	}
	now := time.Now()
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for e := hs.order.Front(); e != nil; e = e.Next() {
		h := e.Value.(*remembered)
		if now.Sub(h.asked) > wanted {
			break // and all behind it even longer
		}
		if h.open {
			open++
		}
	}
	return open, hs.waits
}
