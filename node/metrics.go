package node

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/carillon-run/carillon"
)

// metrics counts what the ledger commits. Labels are few and bounded; job types or owners would not be.
type metrics struct {
	registry *prometheus.Registry
	jobs     *prometheus.CounterVec
	ended    *prometheus.CounterVec
	attempts *prometheus.CounterVec
	delay    *prometheus.HistogramVec
	duration *prometheus.HistogramVec
	commits  prometheus.Histogram
	refused  prometheus.Counter

	mu    sync.Mutex
	lanes map[[2]string]*laneMetrics // by namespace and queue
	last  *laneMetrics               // of the run that was counted last: most runs of a commit share a lane
}

// laneMetrics are the numbers of one queue of a namespace.
type laneMetrics struct {
	namespace, queue string
	jobs, attempts   prometheus.Counter
	delay, duration  prometheus.Observer
	ended            [carillon.StateSkipped + 1]prometheus.Counter // by state
}

const (
	// maxLanes is how many queues are counted by name, with about 50 series each. It is bounded because any
	// caller can make up names.
	maxLanes = 200
	// otherLane is the label for all other queues. No queue can have this name.
	otherLane = "_other"
)

func (m *metrics) lane(namespace, queue string) *laneMetrics {
	if l := m.last; l != nil && l.namespace == namespace && l.queue == queue {
		return l
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = m.find(namespace, queue)
	return m.last
}

// find makes all the numbers of a lane when it first sees the lane, so that they begin at 0: to Prometheus, a
// counter that first appears as 1 has not risen. The caller must hold the lock.
func (m *metrics) find(namespace, queue string) *laneMetrics {
	if l := m.lanes[[2]string{namespace, queue}]; l != nil {
		return l
	}
	if len(m.lanes) >= maxLanes && queue != otherLane {
		return m.find(otherLane, otherLane)
	}
	l := &laneMetrics{
		namespace: namespace, queue: queue, jobs: m.jobs.WithLabelValues(namespace, queue),
		attempts: m.attempts.WithLabelValues(namespace, queue),
		delay:    m.delay.WithLabelValues(namespace, queue),
		duration: m.duration.WithLabelValues(namespace, queue),
	}
	for state := range l.ended {
		if state := carillon.State(state); state.Ended() {
			l.ended[state] = m.ended.WithLabelValues(namespace, queue, state.String())
		}
	}
	m.lanes[[2]string{namespace, queue}] = l
	return l
}

// seenTimeline makes the numbers of a lane before its runs are due: after a restart, the load of a run is the
// first that the node hears of the run's queue.
type seenTimeline struct {
	carillon.Timeline
	metrics *metrics
}

func (t *seenTimeline) Add(ctx context.Context, runs []carillon.Run) ([]int, error) {
	t.metrics.seen(runs)
	return t.Timeline.Add(ctx, runs)
}

func (m *metrics) seen(runs []carillon.Run) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range runs {
		if i == 0 || runs[i].Queue != runs[i-1].Queue || runs[i].Namespace != runs[i-1].Namespace {
			m.find(runs[i].Namespace, runs[i].Queue)
		}
	}
}

var seconds = []float64{
	.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 21600,
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(), lanes: map[[2]string]*laneMetrics{},
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_jobs_submitted_total", Help: "Jobs accepted.",
		}, []string{"namespace", "queue"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_runs_ended_total", Help: "Runs that ended, by state.",
		}, []string{"namespace", "queue", "state"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_attempts_total", Help: "Claims of runs by workers.",
		}, []string{"namespace", "queue"}),
		delay: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "carillon_start_delay_seconds", Help: "From due time to the first claim.", Buckets: seconds,
		}, []string{"namespace", "queue"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "carillon_run_duration_seconds",
			Help: "From the start of the last attempt to the end of the run.", Buckets: seconds,
		}, []string{"namespace", "queue"}),
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "carillon_commit_changes", Help: "Changes in one commit of the store.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 8),
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "carillon_overloaded_total",
			Help: "Requests refused with 429 because too many jobs waited for the store.",
		}),
	}
	m.registry.MustRegister(m.jobs, m.ended, m.attempts, m.delay, m.duration, m.commits, m.refused,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.lane(carillon.DefaultNamespace, "default") // the queue of jobs that name none
	return m
}

// manyWorkers is the number of workers from which on unserved does not look at their labels: with a label of
// its own for each of them, all runs would be compared with all workers while no pull is served.
const manyWorkers = 1000

// unserved counts the due runs in a queue that no live worker takes, wherever it dialed in. With very many
// workers it leaves out runs that only lack a label.
func unserved(queue carillon.Queue, members []carillon.Member) int {
	due := queue.Len()
	if due == 0 {
		return 0
	}
	var wants []carillon.Want
	known := map[string]bool{}
	for i := range members {
		if members[i].Kind != carillon.MemberWorker {
			continue
		}
		want := members[i].Want
		if len(members) > manyWorkers {
			want.Labels = nil
		}
		want.Queues = slices.Clone(want.Queues)
		for k, name := range want.Queues {
			want.Queues[k], _, _ = strings.Cut(name, "=") // from its weight
		}
		if text := fmt.Sprint(want); !known[text] {
			known[text] = true
			wants = append(wants, want)
		}
	}
	if len(wants) == 0 {
		return due
	}
	return max(0, due-queue.Len(wants...)) // a run can start between the two counts
}

// gauge adds a value that is read at every scrape.
func (m *metrics) gauge(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// hosts adds what the worker knows of the hosts that http targets call. Their names are no labels: any caller
// can make up names.
func (m *metrics) hosts(figures func() (open int, waits int64)) {
	m.gauge("carillon_http_hosts_open", "Hosts that get only probes, because they do not answer.",
		func() float64 {
			open, _ := figures()
			return float64(open)
		})
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "carillon_http_waits_total", Help: "Attempts of http targets that were handed back to wait.",
	}, func() float64 {
		_, waits := figures()
		return float64(waits)
	}))
}

// count is called for every commit, one commit at a time.
func (m *metrics) count(committed []carillon.Change) {
	m.commits.Observe(float64(len(committed)))
	for i := range committed {
		c := &committed[i]
		if c.Job != nil && c.Job.Rev == 1 {
			m.lane(c.Job.Namespace, c.Job.Queue).jobs.Inc()
		}
		for k := range c.Runs {
			m.countRun(&c.Runs[k])
		}
	}
}

func (m *metrics) countRun(run *carillon.Run) {
	switch l := m.lane(run.Namespace, run.Queue); {
	case run.State == carillon.StateClaimed && run.Started == 0 && !run.Has(carillon.FlagStop):
		l.attempts.Inc()
		if run.Attempt == 1 {
			l.delay.Observe(run.Claimed.Sub(run.ID.Due).Seconds())
		}
	case run.State.Ended():
		l.ended[run.State].Inc()
		if run.Started != 0 {
			l.duration.Observe(run.Ended.Sub(run.Started).Seconds())
		}
	}
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
