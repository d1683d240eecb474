package node

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/carillon-run/carillon"
)

// metrics counts what the ledger commits. Labels are few: a job type or an owner as a label would grow without bound.
type metrics struct {
	registry *prometheus.Registry
	jobs     *prometheus.CounterVec
	ended    *prometheus.CounterVec
	attempts *prometheus.CounterVec
	delay    *prometheus.HistogramVec
	duration *prometheus.HistogramVec
	commits  prometheus.Histogram
	last     laneMetrics // whose numbers were looked up last: most of a commit is one lane's
}

// laneMetrics are the numbers of one queue of a namespace.
type laneMetrics struct {
	namespace, queue string
	jobs, attempts   prometheus.Counter
	delay, duration  prometheus.Observer
	ended            [carillon.Skipped + 1]prometheus.Counter // by state, looked up when there is one
}

func (m *metrics) lane(namespace, queue string) *laneMetrics {
	if l := &m.last; l.jobs != nil && l.namespace == namespace && l.queue == queue {
		return l
	}
	m.last = laneMetrics{
		namespace: namespace, queue: queue, jobs: m.jobs.WithLabelValues(namespace, queue),
		attempts: m.attempts.WithLabelValues(namespace, queue), delay: m.delay.WithLabelValues(namespace, queue),
		duration: m.duration.WithLabelValues(namespace, queue),
	}
	return &m.last
}

var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 21600}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
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
			Name: "carillon_run_duration_seconds", Help: "From the start of the last attempt to the end of the run.", Buckets: seconds,
		}, []string{"namespace", "queue"}),
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "carillon_commit_changes", Help: "Changes in one commit of the store.", Buckets: prometheus.ExponentialBuckets(1, 4, 8),
		}),
	}
	m.registry.MustRegister(m.jobs, m.ended, m.attempts, m.delay, m.duration, m.commits,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// gauge adds a value that is read when somebody asks.
func (m *metrics) gauge(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// count is told of every commit, of one at a time.
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
	case run.State == carillon.Claimed && run.Started == 0 && !run.Has(carillon.Stop):
		l.attempts.Inc()
		if run.Attempt == 1 {
			l.delay.Observe(run.Claimed.Sub(run.ID.Due).Seconds())
		}
	case run.State.Ended():
		if l.ended[run.State] == nil {
			l.ended[run.State] = m.ended.WithLabelValues(run.Namespace, run.Queue, run.State.String())
		}
		l.ended[run.State].Inc()
		if run.Started != 0 {
			l.duration.Observe(run.Ended.Sub(run.Started).Seconds())
		}
	}
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
