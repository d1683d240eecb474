package client_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/api"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/worker/protocol"
)

// endless always has the same tasks and takes every report: only the way between server and worker is left to
// measure.
type endless struct{ tasks []protocol.Task }

func (e endless) Register(_ context.Context, r protocol.Registration) (string, error) {
	return r.ID, nil // the server has made an id that belongs to the token
}
func (e endless) Leave(context.Context, string) error { return nil }

func (e endless) Pull(context.Context, protocol.Pull) ([]protocol.Task, error) { return e.tasks, nil }

func (e endless) Beat(context.Context, carillon.Beat) (protocol.Orders, error) {
	return protocol.Orders{}, nil
}

func (e endless) Report(_ context.Context, _ string, reports []protocol.Report) ([]protocol.Receipt, error) {
	receipts := make([]protocol.Receipt, len(reports))
	for i := range receipts {
		receipts[i] = protocol.ReceiptRecorded
	}
	return receipts, nil
}

// straight hands requests to a handler without a network.
type straight struct{ http.Handler }

type recorder struct {
	header http.Header
	status int
	bytes.Buffer
}

func (r *recorder) Header() http.Header    { return r.header }
func (r *recorder) WriteHeader(status int) { r.status = status }

func (s straight) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &recorder{header: http.Header{}, status: http.StatusOK}
	s.ServeHTTP(w, r)
	return &http.Response{
		StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.Buffer), ContentLength: int64(w.Len()),
		Request: r,
	}, nil
}

// benchDispatcher also returns the id of a worker that has registered.
func benchDispatcher(b *testing.B) (*client.Dispatcher, string, []protocol.Task) {
	tasks := make([]protocol.Task, 1000)
	for i := range tasks {
		job := carillon.Job{
			ID: 1<<40 + carillon.JobID(i), Namespace: "default",
		}
		job.Name, job.Type, job.Target.Handler = fmt.Sprintf("mail %d", i), "email.send", &carillon.Handler{}
		job.Payload = []byte(
			`{"to":"person@example.com","subject":"hello","text":"` + strings.Repeat("x", 142) + `"}`,
		)
		if err := job.Admit(carillon.Now()); err != nil {
			b.Fatal(err)
		}
		run := carillon.NewRun(&job, carillon.Now()).Claim("worker_1", carillon.Now())
		tasks[i] = protocol.Task{Run: run, Job: &job}
	}
	web := api.New(api.Config{
		Dispatcher: endless{tasks}, Tokens: map[string]api.Credential{token: {Namespace: "default"}},
		Ledger: noLedger{},
	})
	d, err := client.NewDispatcher(client.DispatcherConfig{
		Servers: []string{"http://x"}, Token: token, HTTP: &http.Client{Transport: straight{web}},
	})
	if err != nil {
		b.Fatal(err)
	}
	worker, err := d.Register(b.Context(), protocol.Registration{Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	return d, worker, tasks
}

type noLedger struct{ api.Ledger }

func BenchmarkPull(b *testing.B) {
	d, worker, tasks := benchDispatcher(b)
	b.ReportAllocs()
	for b.Loop() {
		got, err := d.Pull(b.Context(), protocol.Pull{Worker: worker, Max: 1000})
		if err != nil || len(got) != len(tasks) {
			b.Fatal(len(got), err)
		}
	}
	perTask(b, len(tasks))
}

func BenchmarkReport(b *testing.B) {
	d, worker, _ := benchDispatcher(b)
	tasks, err := d.Pull(b.Context(), protocol.Pull{Worker: worker, Max: 1000})
	if err != nil {
		b.Fatal(err)
	}
	reports := make([]protocol.Report, len(tasks))
	for i := range tasks {
		reports[i] = protocol.Report{
			Held: tasks[i].Held(), Token: tasks[i].Token,
			End: &carillon.Outcome{Kind: carillon.OutcomeSuccess, Started: carillon.Now()},
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		receipts, err := d.Report(b.Context(), worker, reports)
		if err != nil || receipts[0] != protocol.ReceiptRecorded || len(receipts) != len(reports) {
			b.Fatal(receipts, err)
		}
	}
	perTask(b, len(tasks))
}

func perTask(b *testing.B, tasks int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*tasks), "ns/task")
}
