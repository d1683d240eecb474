package node

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
)

// scrape is what Prometheus reads.
func (m *metrics) scrape(t *testing.T) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	return w.Body.String()
}

// wantZeros checks that the first end of a run in a queue, in whatever state, is a step from 0, which
// increase() sees.
func wantZeros(t *testing.T, m *metrics, queue string) {
	t.Helper()
	text := m.scrape(t)
	for _, state := range []string{"succeeded", "failed", "canceled", "skipped"} {
		line := fmt.Sprintf(
			"\ncarillon_runs_ended_total{namespace=\"default\",queue=%q,state=%q} 0\n", queue, state,
		)
		if !strings.Contains(text, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
}

func TestEndsOfRunsAreCountedFromZeroBeforeTheFirstOne(t *testing.T) {
	m := newMetrics()
	wantZeros(t, m, "default")

	job := carillon.Job{Namespace: "default", Definition: carillon.Definition{Queue: "submitted"}, Rev: 1}
	m.count([]carillon.Change{{Job: &job}})
	wantZeros(t, m, "submitted")

	// After a restart a run is loaded from the store some time before it is due, so that a scrape comes in
	// between.
	timeline := &seenTimeline{mem.NewTimeline(mem.TimelineConfig{}), m}
	if _, err := timeline.Add(t.Context(), []carillon.Run{
		{Namespace: "default", Queue: "loaded", ID: carillon.RunID{Job: 1, Due: 1}, Wake: 1},
	}); err != nil {
		t.Fatal(err)
	}
	wantZeros(t, m, "loaded")
}

func TestQueuesBeyondTheBoundShareOneLabel(t *testing.T) {
	m := newMetrics()
	for i := range maxLanes + 50 {
		m.count([]carillon.Change{
			{
				Runs: []carillon.Run{
					{Namespace: "default", Queue: fmt.Sprint("q", i), State: carillon.StateFailed},
				},
			},
		})
	}
	text := m.scrape(t)
	if n := strings.Count(text, `state="failed"`); n != maxLanes+1 {
		t.Errorf("%d queues are counted, want %d and one for the others", n, maxLanes)
	}
	// The default queue is counted first, so one more queue shares the label.
	if want := fmt.Sprintf(
		"carillon_runs_ended_total{namespace=\"_other\",queue=\"_other\",state=\"failed\"} %d\n", 51,
	); !strings.Contains(text, want) {
		t.Errorf("the metrics lack %s", want)
	}
	want := "carillon_runs_ended_total{namespace=\"default\",queue=\"q7\",state=\"failed\"} 1\n"
	if !strings.Contains(text, want) {
		t.Errorf("the metrics lack %s", want)
	}
}

func TestAlertsOfTheDocsAreAboutMetricsThatExist(t *testing.T) {
	docs, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(docs), "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, alerts, _ := strings.Cut(section, "Worth an alert:")
	n := open(t, Config{Data: t.TempDir(), Store: "mem:"})
	text := n.metrics.scrape(t)
	names := regexp.MustCompile(`carillon_[a-z_]+`)
	found := names.FindAllString(alerts, -1)
	if len(found) < 6 {
		t.Errorf("the alerts are about %q only", found)
	}
	for _, name := range append(found, names.FindAllString(section, -1)...) {
		if name != "carillon_replica_lag_seconds" && !strings.Contains(text, "\n"+name+"{") &&
			!strings.Contains(text, "\n"+name+" ") &&
			!strings.Contains(text, "\n"+name+"_bucket{") {
			t.Errorf("%s is not among the metrics", name)
		}
	}
	for _, label := range regexp.MustCompile(`[a-z]+="[a-z]+"`).FindAllString(alerts, -1) {
		if !strings.Contains(text, label) {
			t.Errorf("%s is no label of the metrics", label)
		}
	}
}
