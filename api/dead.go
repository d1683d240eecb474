package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

func (s *server) deadRoutes() []route {
	var run carillon.Run
	return []route{
		{
			Method: "GET", Pattern: "/v1/dead-letters",
			Summary: "List the runs that failed for good, latest first",
			Query: append([]param{
				{"job_id", "only of this job", run.ID.Job},
				{"type", "only of this type; * stands for any characters", nil},
				{"owner", "only of this owner", nil},
				{"queue", "only of this queue", nil},
				{
					"label", "key:value, exactly this label of the job; given several times, all of them",
					[]string{},
				},
				{"error", "only with this text in the reason; upper and lower case are the same", nil},
				{"fingerprint", "only with a reason of this group, see /v1/dead-letters/groups", nil},
				{"from", "ended at or after this time", run.Ended},
				{"to", "ended before this time", run.Ended},
			}, paging...),
			Status: 200, Gives: wire.Page[wire.DeadLetter]{}, handle: s.listDeadLetters,
		},
		{
			Method: "GET", Pattern: "/v1/dead-letters/groups",
			Summary: "Group dead letters by their errors, those with the most letters first",
			Query: []param{
				{"type", "only of exactly this type", nil},
				{"limit", "the most groups, 1 to 1000, default 100", 0},
			},
			Status: 200, Gives: wire.List[carillon.DeadGroup]{}, handle: s.listDeadGroups,
		},
		{
			Method: "GET", Pattern: "/v1/dead-letters/{id}",
			Summary: "Read a dead letter with the definition of its run, the end of its log and its output",
			Status:  200, Gives: wire.DeadLetterDetail{}, handle: s.getDeadLetter,
		},
		{
			Method: "POST", Pattern: "/v1/dead-letters/{id}/retry",
			Summary: "Repeat a dead letter with a new run, with another payload if one is given, and take " +
				"it off the list",
			Takes: wire.RunRequest{}, MayTake: true, Status: 201, Gives: run, Keyed: true,
			handle: s.retryDeadLetter,
		},
	}
}

func (s *server) listDeadLetters(w http.ResponseWriter, r *http.Request, q *query) error {
	filter := q.deadFilter()
	if q.err != nil {
		return q.err
	}
	if err := filter.Admit(); err != nil {
		return err
	}
	want := filter.Query(namespace(r))
	want.After, want.Limit = q.cursor(), q.limit()
	if q.err != nil {
		return q.err
	}
	found, err := list(s, w, r, func(from carillon.Store) (carillon.RunPage, error) {
		return from.FindRuns(r.Context(), want)
	})
	if err != nil {
		return err
	}
	letters := make([]wire.DeadLetter, len(found.Runs))
	for i := range found.Runs {
		facts, _ := s.deadFacts(&found.Runs[i])
		letters[i] = wire.DeadLetter{Run: found.Runs[i], DeadFacts: facts}
	}
	return reply(w, http.StatusOK, wire.NewPage(letters, q.nextCursor(found.Next)))
}

// deadFilter reads the parameters that choose dead letters.
func (q *query) deadFilter() (f carillon.DeadFilter) {
	f = carillon.DeadFilter{
		Job: q.job("job_id"), Type: q.text("type"), Owner: q.text("owner"), Queue: q.text("queue"),
		Error: q.text("error"), From: q.time("from"), To: q.time("to"),
	}
	for _, given := range q.values["label"] {
		key, value, ok := strings.Cut(given, ":")
		if other, named := f.Labels[key]; !ok || key == "" || named && other != value {
			q.fail("label", given, "key:value, each key once")
			return f
		}
		if f.Labels == nil {
			f.Labels = map[string]string{}
		}
		f.Labels[key] = value
	}
	if q.values.Has("fingerprint") {
		var err error
		f.Fingerprint, err = carillon.ParseFingerprint(q.text("fingerprint"))
		q.in("fingerprint", err)
	}
	return f
}

func (s *server) deadFacts(run *carillon.Run) (facts wire.DeadFacts, text string) {
	facts.ExpiresAt = run.DeadExpiry(s.Retention.DeadLetters)
	facts.Fingerprint, text = carillon.FingerprintOf(run.Reason)
	return facts, text
}

func (s *server) listDeadGroups(w http.ResponseWriter, r *http.Request, q *query) error {
	want := carillon.DeadGroupQuery{Namespace: namespace(r), Type: q.text("type"), Limit: q.limit()}
	if q.err != nil {
		return q.err
	}
	if strings.Contains(want.Type, "*") {
		return invalid("type", want.Type, "exactly one type, without a star")
	}
	groups, err := list(s, w, r, func(from carillon.Store) ([]carillon.DeadGroup, error) {
		return from.DeadGroups(r.Context(), want)
	})
	if err != nil {
		return err
	}
	if groups == nil {
		groups = []carillon.DeadGroup{}
	}
	return reply(w, http.StatusOK, wire.List[carillon.DeadGroup]{Items: groups})
}

func (s *server) getDeadLetter(w http.ResponseWriter, r *http.Request, _ *query) error {
	id, err := carillon.ParseRunID(r.PathValue("id"))
	if err != nil {
		return err
	}
	found, err := s.Store.FindRuns(r.Context(), carillon.RunQuery{
		Namespace: namespace(r), Dead: true, Job: id.Job, From: id.Due, To: id.Due + 1, Limit: 1,
	})
	if err != nil {
		return err
	}
	if len(found.Runs) == 0 {
		return notFound("dead letter " + id.String())
	}
	letter := wire.DeadLetterDetail{Run: found.Runs[0]}
	letter.DeadFacts, letter.Error = s.deadFacts(&letter.Run)
	whole, err := s.Store.Runs(r.Context(), []carillon.RunID{id}, true)
	if err != nil {
		return err
	}
	if len(whole) > 0 {
		letter.Output = whole[0].Output
	}
	jobs, err := s.Store.Jobs(r.Context(), []carillon.JobVersion{letter.Run.Definition()})
	if err != nil {
		return err
	}
	if len(jobs) > 0 {
		job := s.shown(jobs[0])
		letter.JobDefinition = &job.Definition
	}
	after := max(letter.Run.Attempt-wire.DeadLetterAttempts, 0)
	records, err := s.Store.Attempts(r.Context(), id, after, wire.DeadLetterAttempts)
	if err != nil {
		return err
	}
	if letter.DeadStory.Attempts = letter.Run.Attempts(records, after, false); len(records) == 0 {
		letter.DeadStory.Attempts = []carillon.Attempt{}
	}
	if letter.Log, err = s.lastLines(r.Context(), &letter.Run, wire.DeadLetterLines); err != nil {
		return err
	}
	return reply(w, http.StatusOK, letter)
}

// lastLines reads the end of the log of a run.
func (s *server) lastLines(ctx context.Context, run *carillon.Run, most int) ([]carillon.Line, error) {
	from, err := (&seek{s.Logs, run, logQuery{tail: most}}).start(ctx)
	if err != nil {
		return nil, err
	}
	lines, err := s.Logs.Read(ctx, carillon.LogQuery{
		Namespace: run.Namespace, Run: run.ID, AfterAttempt: from.attempt, AfterOffset: from.offset,
		Limit: most + mostAttempts, // each attempt adds a notice
	})
	if lines == nil {
		lines = []carillon.Line{}
	}
	return lines[max(len(lines)-most, 0):], err
}

// retryDeadLetter accepts only dead letters, so that pressing the button twice gives one retry and one
// refusal.
func (s *server) retryDeadLetter(w http.ResponseWriter, r *http.Request, _ *query) error {
	id, err := carillon.ParseRunID(r.PathValue("id"))
	if err != nil {
		return err
	}
	var want wire.RunRequest
	if err := readOptional(w, r, &want); err != nil {
		return err
	}
	return s.writeRun(w, r, showNew, func() (carillon.Run, error) {
		return s.Ledger.RetryDeadLetter(r.Context(), namespace(r), id, want.Payload)
	})
}

// dryRedrive counts the dead letters that a redrive would retry if it began now.
func (s *server) dryRedrive(ctx context.Context, op carillon.Operation) (wire.OperationAnswer, error) {
	answer := wire.OperationAnswer{Operation: op, DryRun: true}
	q := op.Dead.QueryUntil(op.Namespace, s.Clock.Now())
	q.Limit = dryRunPage
	for until := time.Now().Add(dryRunTime); ; {
		page, err := s.Store.FindRuns(ctx, q)
		if err != nil {
			return answer, err
		}
		answer.Total += len(page.Runs)
		for i := 0; i < len(page.Runs) && len(answer.Letters) < dryRunSample; i++ {
			run := &page.Runs[i]
			answer.Letters = append(answer.Letters, wire.SampleLetter{
				ID: run.ID, Name: run.About.Name, Type: run.About.Type, Owner: run.About.Owner,
				Queue: run.Queue, Reason: run.Reason,
			})
		}
		if q.After = page.Next; page.Next == "" {
			return answer, nil
		}
		if time.Now().After(until) {
			answer.AtLeast = true
			return answer, nil
		}
	}
}
