package porttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
)

// Idempotency keys are decided by the ledger, but they need stores that let one of many concurrent writes
// win.
var storeKeys = []storeCase{
	{"a request with a key is performed once, whatever happens", func(t *storeTest) {
		newKeysWorld(t, 0).play(120)
	}},
	{"a request with a key is performed once, whatever fails", func(t *storeTest) {
		newKeysWorld(t, 0.1).play(120)
	}},
}

// keysWorld sends random requests with few idempotency keys to two nodes, one at a time or many at once, and
// knows what each key was used for.
type keysWorld struct {
	*storeTest
	rand   *rand.Rand
	clock  carillon.Clock
	ahead  time.Duration // how much time has passed; that of the machine does not count
	faults float64       // the share of calls of the store that fail
	nodes  [2]*ledger.Ledger
	sound  *ledger.Ledger // of which no call fails; it only reads

	jobs []carillon.JobID
	uses map[string]*keyUse
	sent []keyRequest
}

// keyUse is the request that a key was used for.
type keyUse struct {
	request keyRequest
	at      time.Duration // of ahead
	answer  string        // empty: not heard yet
}

// keyRequest is what a caller sends. Requests that are equal are the same request.
type keyRequest struct {
	key   string
	kind  string // submit, pause, resume, cancel or run
	count int    // of jobs that are submitted
	body  int
	job   carillon.JobID
}

// hash is what the API makes of a request without its key.
func (r keyRequest) hash() string { return fmt.Sprint(r.kind, r.count, r.body, r.job) }

func newKeysWorld(t *storeTest, faults float64) *keysWorld {
	return &keysWorld{storeTest: t, rand: random(t.T), faults: faults, uses: map[string]*keyUse{}}
}

func (w *keysWorld) play(steps int) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for i := range w.nodes {
		store := w.store
		if w.faults > 0 {
			store = Lossy(w.store, rand.New(rand.NewPCG(w.rand.Uint64(), 1)), w.faults)
		}
		w.nodes[i] = ledger.New(ledger.Config{
			Store: store, IDs: idgen.New(i+1, carillon.Never), Clock: &w.clock,
		})
		running.Go(func() { _ = w.nodes[i].Run(ctx) })
	}
	w.sound = ledger.New(ledger.Config{Store: w.store, Clock: &w.clock})
	begun := time.Now()
	for step := range steps {
		w.step()
		if w.Failed() {
			w.Fatalf("in step %d", step)
		}
		if time.Since(begun) > modelTime/2 && step > 30 {
			return
		}
	}
}

func (w *keysWorld) step() {
	switch n := w.rand.IntN(10); {
	case n < 2:
		w.ahead += pick(w.rand, 20*time.Minute, 5*time.Hour, 7*time.Hour, 12*time.Hour)
		w.clock.SetAhead(w.ahead)
		if w.rand.IntN(2) == 0 {
			w.forget()
		}
	case n < 5 && len(w.sent) > 0: // the same again
		w.send(pick(w.rand, w.sent...))
	case n < 7: // many at once, of one request or of two
		r := w.request()
		also := w.request()
		if also.key = r.key; w.rand.IntN(2) == 0 {
			also = r
		}
		w.send(r, also, r, also, r)
	default:
		w.send(w.request())
	}
}

func (w *keysWorld) forget() {
	_, err := w.store.Forget(context.Background(), carillon.Retention{}, w.clock.Now(), 1000)
	w.must(err)
}

// request is a request that may be new.
func (w *keysWorld) request() keyRequest {
	r := keyRequest{
		key: pick(w.rand, "a", "b", "c"), kind: "submit", count: 1 + w.rand.IntN(3), body: w.rand.IntN(2),
	}
	if len(w.jobs) > 0 && w.rand.IntN(2) == 0 {
		r = keyRequest{
			key: r.key, kind: pick(w.rand, "pause", "resume", "cancel", "run", "run"),
			job: pick(w.rand, w.jobs[max(0, len(w.jobs)-3):]...),
		}
	}
	return r
}

// send sends requests with one key at the same time, and compares the answers with what the rules say.
func (w *keysWorld) send(requests ...keyRequest) {
	w.sent = append(w.sent, requests[0])
	key := requests[0].key
	before, use, leaves := w.state(), w.inForce(key), w.leaves(key)
	answers, errs := make([]string, len(requests)), make([]error, len(requests))
	var callers sync.WaitGroup
	for i, r := range requests {
		node := w.nodes[w.rand.IntN(2)]
		callers.Go(func() { answers[i], errs[i] = w.call(node, r) })
	}
	callers.Wait()
	after := w.state()
	if use == nil {
		use = w.performed(requests, answers, errs)
		w.changed(before, after, use)
	} else {
		w.changed(before, after, nil)
	}
	if use != nil {
		w.uses[key] = use
	}
	for i, r := range requests {
		if use != nil || !leaves || errs[i] == nil {
			w.judge(r, use, answers[i], errs[i])
		}
	}
	if leaves {
		w.expectForgotten(key)
	}
	for id := range after.jobs {
		if _, was := before.jobs[id]; !was {
			w.jobs = append(w.jobs, id)
		}
	}
}

// inForce is what a key was used for; nil: it is free.
func (w *keysWorld) inForce(key string) *keyUse {
	if use := w.uses[key]; use != nil && w.ahead-use.at < 24*time.Hour {
		return use
	}
	return nil
}

// performed finds out which of some requests with a free key was performed; nil: none.
func (w *keysWorld) performed(requests []keyRequest, answers []string, errs []error) *keyUse {
	for i, r := range requests {
		if errs[i] == nil {
			return &keyUse{request: r, at: w.ahead, answer: answers[i]}
		}
	}
	for _, r := range requests { // those that failed may have been performed
		var repeated *carillon.RepeatedError
		err := w.sound.Used(w.once(r, nil).Context(context.Background()), "default")
		if errors.As(err, &repeated) {
			return &keyUse{request: r, at: w.ahead}
		}
	}
	return nil
}

// judge checks one answer. use is what the key was used for, before or by the requests of this step.
func (w *keysWorld) judge(r keyRequest, use *keyUse, answer string, err error) {
	w.Helper()
	var reused *carillon.KeyReusedError
	tried := errors.Is(err, ErrInjected) || errors.Is(err, carillon.ErrConflict)
	switch {
	case errors.Is(err, ErrInjected): // the caller does not know, and can send it again
	case use == nil:
		if !tried {
			w.Errorf("%+v: %v, and the key is free", r, err)
		}
	case use.request.hash() != r.hash():
		if !errors.As(err, &reused) && !(tried && use.at == w.ahead) {
			w.Errorf("%+v: %q, %v; the key was used for %+v", r, answer, err, use.request)
		}
	case err != nil:
		w.Errorf("%+v: %v; it was performed, %s ago", r, err, w.ahead-use.at)
	case use.answer == "":
		use.answer = answer
	case use.answer != answer:
		w.Errorf("%+v is answered with\n%s\nat first it was\n%s", r, answer, use.answer)
	}
}

// leaves says that the guard of a key has expired so long ago that it is about to be removed. Until then no
// request can have the key.
func (w *keysWorld) leaves(key string) bool {
	guard := w.guard("default", "idempotency/"+key)
	if guard != nil && w.uses[key] == nil {
		w.Fatalf("no request was performed with the key %s, and its guard is %s", key, guard.Value)
	}
	return guard != nil && w.ahead-w.uses[key].at >= 24*time.Hour+carillon.GuardGrace/2
}

// expectForgotten checks that the guard of a key is removed an hour after it has expired, and not sooner.
func (w *keysWorld) expectForgotten(key string) {
	w.Helper()
	if w.inForce(key) != nil {
		w.Errorf("%+v has the key, though the guard is about to be removed", w.uses[key].request)
	}
	w.ahead += carillon.GuardGrace
	w.clock.SetAhead(w.ahead)
	if w.forget(); w.guard("default", "idempotency/"+key) != nil {
		w.Errorf("the guard of %s is not forgotten", key)
	}
}

// keysState is all that requests can change.
type keysState struct {
	jobs map[carillon.JobID]int32 // revisions
	runs int
}

func (w *keysWorld) state() keysState {
	s := keysState{jobs: map[carillon.JobID]int32{}}
	for _, job := range w.findJobs(carillon.JobQuery{Namespace: "default", Limit: 1000}) {
		s.jobs[job.ID] = job.Rev
	}
	s.runs = len(w.findRuns(carillon.RunQuery{Namespace: "default", Limit: 1000}))
	return s
}

// changed checks that what has changed is what one request does; nil: nothing has.
func (w *keysWorld) changed(before, after keysState, use *keyUse) {
	w.Helper()
	jobs, runs, edited := len(after.jobs)-len(before.jobs), after.runs-before.runs, 0
	for id, rev := range before.jobs {
		edited += int(after.jobs[id] - rev)
	}
	var r keyRequest
	if use != nil {
		r = use.request
	}
	wantJobs, wantRuns := r.count, r.count
	if r.kind == "run" {
		wantRuns = 1
	}
	commanded := r.kind != "" && r.kind != "submit"
	if jobs != wantJobs || runs != wantRuns || edited > 0 && !commanded || edited > 1 {
		w.Errorf("%+v: %d new jobs, %d new runs, and jobs were changed %d times", r, jobs, runs, edited)
	}
}

// once is the key of a request. heard, if not nil, gets the answer to a command.
func (w *keysWorld) once(r keyRequest, heard *string) *carillon.Once {
	once, err := carillon.NewOnce("key", r.key)
	if err != nil {
		panic(err)
	}
	once.Request, once.At = r.hash(), w.clock.Now()
	once.Answer = func(job *carillon.Job, run *carillon.Run) (json.RawMessage, error) {
		answer, err := json.Marshal(
			fmt.Sprint(job.ID, job.Version, job.State, job.Updated, run.ID, run.State),
		)
		if heard != nil {
			*heard = string(answer)
		}
		return answer, err
	}
	return once
}

// call performs a request as the API does: one that is refused may have been performed before, and that may
// be why it is refused.
func (w *keysWorld) call(node *ledger.Ledger, r keyRequest) (answer string, err error) {
	once := w.once(r, &answer)
	ctx := once.Context(context.Background())
	if r.kind == "submit" {
		var jobs []carillon.Job
		if jobs, err = node.Submit(ctx, "default", r.definitions(once.At)); err == nil {
			return describeJobs(jobs), nil
		}
	} else if err = r.command(ctx, node); err == nil {
		return answer, nil
	}
	var repeated *carillon.RepeatedError
	var reused *carillon.KeyReusedError
	if !errors.Is(err, ErrInjected) && !errors.As(err, &repeated) && !errors.As(err, &reused) {
		if used := node.Used(ctx, "default"); used != nil {
			err = used
		}
	}
	switch {
	case !errors.As(err, &repeated):
		return "", err
	case r.kind == "submit":
		return describeJobs(repeated.Use.Submitted("default", r.definitions(repeated.Use.At), nil)), nil
	}
	return string(repeated.Use.Answer), nil
}

func (r keyRequest) command(ctx context.Context, node *ledger.Ledger) (err error) {
	switch r.kind {
	case "pause":
		_, err = node.PauseJob(ctx, "default", r.job)
	case "resume":
		_, err = node.ResumeJob(ctx, "default", r.job)
	case "cancel":
		_, err = node.CancelJob(ctx, "default", r.job, false)
	case "run":
		_, err = node.RunNow(ctx, "default", r.job, nil)
	}
	return err
}

// definitions are the jobs of a submit, admitted at a time.
func (r keyRequest) definitions(at carillon.Time) []carillon.Definition {
	defs := make([]carillon.Definition, r.count)
	for i := range defs {
		defs[i].Type, defs[i].Target.Handler = "test", &carillon.Handler{}
		defs[i].Name = fmt.Sprint("body ", r.body, " job ", i)
		defs[i].Schedule.After = carillon.Duration(time.Duration(1+r.body) * 1000 * time.Hour)
		defs[i].Overlap = carillon.OverlapAllow
		if err := defs[i].Admit(at); err != nil {
			panic(err)
		}
	}
	return defs
}

func describeJobs(jobs []carillon.Job) (text string) {
	for i := range jobs {
		j := &jobs[i]
		text += fmt.Sprintln(
			j.ID, j.Name, j.Version, j.State, j.Created, j.Updated, j.Schedule.At, j.Existing,
		)
	}
	return text
}
