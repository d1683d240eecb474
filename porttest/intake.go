package porttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/carillon-run/carillon"
)

// IntakeTest is what the suite Intake needs to check an intake.
type IntakeTest struct {
	// Open returns an empty intake.
	Open func(t *testing.T) carillon.Intake
	// Leave leaves a job there, as an application does.
	Leave func(t *testing.T, namespace, body string) carillon.JobID
}

// Intake checks what carillon.Intake promises.
func Intake(t *testing.T, c IntakeTest) {
	run := func(name string, f func(intakeTest)) {
		t.Run(name, func(t *testing.T) {
			leave := func(namespace, body string) carillon.JobID {
				t.Helper()
				return c.Leave(t, namespace, body)
			}
			f(intakeTest{t, c.Open(t), leave})
		})
	}
	run("at first there is nothing", intakeNothing)
	run("what was left comes whole, oldest first, until it is settled", intakeLeft)
	run("numbers in what was left keep their digits", intakeNumbers)
	run("each shard has its own", intakeShards)
	run("what was admitted is gone", intakeAdmitted)
	run("what was refused is kept with the reason, and waits no more", intakeRefused)
	run("acknowledging again, or an unknown job, changes nothing", intakeAgain)
	run("refusals come in pages, latest first, to their namespace", intakePages)
	run("a query gets what all its fields ask for", intakeQuery)
	run("many leave, look and settle at once", intakeConcurrent)
}

// intakeTest is an intake whose calls must not fail.
type intakeTest struct {
	*testing.T
	carillon.Intake
	leave func(namespace, body string) carillon.JobID
}

func (t intakeTest) left(shards []int, limit int) (ids []carillon.JobID) {
	t.Helper()
	left, err := t.Submissions(t.Context(), carillon.SubmissionQuery{Shards: shards, Limit: limit})
	if err != nil {
		t.Fatalf("left: %v", err)
	}
	for _, s := range left {
		ids = append(ids, s.ID)
	}
	return ids
}

func (t intakeTest) settle(admitted []carillon.JobID, refused ...carillon.Submission) {
	t.Helper()
	if err := t.Acknowledge(t.Context(), admitted, refused); err != nil {
		t.Fatalf("settle: %v", err)
	}
}

func refusal(s carillon.Submission, reason string) carillon.Submission {
	s.Reason = reason
	return s
}

// refuse refuses submissions that were left, each for its reason.
func (t intakeTest) refuse(reasons map[carillon.JobID]string) {
	t.Helper()
	left, err := t.Submissions(t.Context(), carillon.SubmissionQuery{Limit: 1000})
	if err != nil {
		t.Fatalf("left: %v", err)
	}
	var refused []carillon.Submission
	for _, s := range left {
		if reason, is := reasons[s.ID]; is {
			refused = append(refused, refusal(s, reason))
		}
	}
	t.settle(nil, refused...)
}

func (t intakeTest) refused(namespace string, before carillon.JobID, limit int) []carillon.Submission {
	t.Helper()
	refused, err := t.Submissions(t.Context(), carillon.SubmissionQuery{
		Refused: true, Namespace: namespace, Before: before, Limit: limit,
	})
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	return refused
}

// leftBody returns the definition of a job whose name and payload carry its number.
func leftBody(i int) string {
	return fmt.Sprintf(
		`{"name": "job %d", "target": {"command": {"argv": ["true"]}}, "payload": {"n": %d}}`, i, i,
	)
}

// decoded returns JSON without its spaces and the order of its fields; numbers stay as they are written.
func decoded(t testing.TB, body []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return v
}

func intakeNothing(t intakeTest) {
	same(t, "left", t.left(nil, 10), []carillon.JobID(nil))
	same(t, "refused", len(t.refused("default", 0, 10)), 0)
	t.settle(nil)
}

func intakeLeft(t intakeTest) {
	before := carillon.Now()
	var ids []carillon.JobID
	for i := range 5 {
		ids = append(ids, t.leave("default", leftBody(i)))
	}
	ids = append(ids, t.leave("other", leftBody(5)))
	slices.Sort(ids)
	same(t, "left", t.left(nil, 10), ids)
	same(t, "again", t.left(nil, 10), ids)
	same(t, "the first two", t.left(nil, 2), ids[:2])
	left, err := t.Submissions(t.Context(), carillon.SubmissionQuery{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range left {
		if s.At < before-1 || s.At > carillon.Now()+1 || s.ID <= 0 ||
			s.Namespace != []string{"default", "other"}[i/5] {
			t.Errorf("%+v", s)
		}
		same(t, "body", decoded(t, s.Body), decoded(t, []byte(leftBody(i))))
	}
}

func intakeNumbers(t intakeTest) {
	body := `{"target": {"handler": {}}, "type": "a",
		"payload": [12345678901234567890.10, 0.1, 1.00, -7, 9007199254740993]}`
	t.leave("default", body)
	left, err := t.Submissions(t.Context(), carillon.SubmissionQuery{Limit: 10})
	if err != nil || len(left) != 1 {
		t.Fatal(left, err)
	}
	same(t, "body", decoded(t, left[0].Body), decoded(t, []byte(body)))
}

func intakeShards(t intakeTest) {
	by := map[int][]carillon.JobID{}
	for i := range 100 {
		id := t.leave("default", leftBody(i))
		by[id.Shard()] = append(by[id.Shard()], id)
	}
	var odd []int
	var want []carillon.JobID
	for shard, ids := range by {
		same(t, fmt.Sprintf("shard %d", shard), t.left([]int{shard}, 100), ids)
		if shard%2 == 1 {
			odd, want = append(odd, shard), append(want, ids...)
		}
	}
	slices.Sort(want)
	same(t, "odd shards", t.left(odd, 100), want)
	same(t, "no shards", t.left([]int{}, 100), []carillon.JobID(nil))
}

func intakeAdmitted(t intakeTest) {
	a, b, c := t.leave(
		"default", leftBody(1),
	), t.leave("default", leftBody(2)), t.leave("default", leftBody(3))
	t.settle([]carillon.JobID{a, c})
	same(t, "left", t.left(nil, 10), []carillon.JobID{b})
	same(t, "refused", len(t.refused("default", 0, 10)), 0)
}

func intakeRefused(t intakeTest) {
	a, b := t.leave("default", leftBody(1)), t.leave("default", leftBody(2))
	left, err := t.Submissions(t.Context(), carillon.SubmissionQuery{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	want := refusal(left[1], `schedule.cron: "99 * * * *" is not valid`)
	t.settle([]carillon.JobID{a}, want)
	same(t, "left", t.left(nil, 10), []carillon.JobID(nil))
	same(t, "refused", t.refused("default", 0, 10), []carillon.Submission{want})
	same(t, "id", want.ID, b)
}

func intakeAgain(t intakeTest) {
	a, b := t.leave("default", leftBody(1)), t.leave("default", leftBody(2))
	left, err := t.Submissions(t.Context(), carillon.SubmissionQuery{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	first := refusal(left[1], "first")
	t.settle([]carillon.JobID{a}, first)
	t.settle([]carillon.JobID{a, b, 12345}, refusal(left[1], "second"),
		carillon.Submission{ID: 54321, Namespace: "default", Reason: "it was not left"})
	same(t, "refused", t.refused("default", 0, 10), []carillon.Submission{first})
	same(t, "left", t.left(nil, 10), []carillon.JobID(nil))
}

func intakePages(t intakeTest) {
	reasons := map[carillon.JobID]string{}
	var ours []carillon.JobID
	for i := range 7 {
		id := t.leave("default", leftBody(i))
		ours, reasons[id] = append(ours, id), fmt.Sprint("reason ", i)
	}
	theirs := t.leave("other", leftBody(9))
	reasons[theirs] = "theirs"
	t.refuse(reasons)
	slices.Sort(ours)
	slices.Reverse(ours)
	for limit := 1; limit <= 8; limit++ {
		var got []carillon.JobID
		for page := t.refused("default", 0, limit); len(page) > 0; page = t.refused(
			"default", got[len(got)-1], limit,
		) {
			for _, r := range page {
				got = append(got, r.ID)
				same(t, "reason", r.Reason, reasons[r.ID])
			}
		}
		same(t, fmt.Sprintf("pages of %d", limit), got, ours)
	}
	same(t, "theirs", t.refused("other", 0, 10)[0].ID, theirs)
	same(t, "of another namespace", len(t.refused("third", 0, 10)), 0)
}

func intakeQuery(t intakeTest) {
	var all []carillon.JobID
	theirs, reasons := map[carillon.JobID]bool{}, map[carillon.JobID]string{}
	for i := range 24 {
		namespace := []string{"default", "other"}[i%2]
		id := t.leave(namespace, leftBody(i))
		all, theirs[id] = append(all, id), namespace == "other"
		if i%4 < 2 {
			reasons[id] = "x"
		}
	}
	slices.Sort(all)
	t.refuse(reasons)
	shards := []int{all[3].Shard(), all[4].Shard(), all[5].Shard(), all[8].Shard()}
	for _, refused := range []bool{false, true} {
		for _, q := range []carillon.SubmissionQuery{
			{},
			{Namespace: "other"},
			{Shards: shards},
			{Before: all[9]},
			{Namespace: "other", Before: all[9]},
			{Namespace: "other", Shards: shards, Before: all[12]},
		} {
			q.Refused = refused
			var got, want []carillon.JobID
			for _, id := range all {
				if (reasons[id] != "") == refused && (q.Namespace == "" || theirs[id]) &&
					(q.Shards == nil || slices.Contains(q.Shards, id.Shard())) &&
					(q.Before == 0 || id < q.Before) {
					want = append(want, id)
				}
			}
			if refused {
				slices.Reverse(want)
			}
			found, err := t.Submissions(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range found {
				got = append(got, s.ID)
			}
			same(t, fmt.Sprintf("%+v", q), got, want)
		}
	}
}

// intakeConcurrent has two callers that admit everything: each sees what the other has not settled yet, and
// nothing is lost.
func intakeConcurrent(t intakeTest) {
	const leavers, each = 4, 50
	var leaving, admitting sync.WaitGroup
	var left, admitted, refused sync.Map
	for g := range leavers {
		leaving.Go(func() {
			for i := range each {
				id := t.leave("default", leftBody(g*each+i))
				if _, twice := left.LoadOrStore(id, true); twice {
					t.Errorf("id %s twice", id)
				}
			}
		})
	}
	done := make(chan struct{})
	for range 2 {
		admitting.Go(func() { t.admitAll(done, &admitted, &refused) })
	}
	leaving.Wait()
	close(done)
	admitting.Wait()
	count := func(m *sync.Map) (n int) {
		m.Range(func(any, any) bool { n++; return true })
		return n
	}
	same(t, "jobs left", count(&left), leavers*each)
	same(t, "jobs settled", count(&admitted)+count(&refused), leavers*each)
	same(t, "left over", t.left(nil, 10), []carillon.JobID(nil))
	same(t, "refused", len(t.refused("default", 0, 1000)), count(&refused))
}

// admitAll settles all submissions that it finds, until it finds no more after done.
func (t intakeTest) admitAll(done <-chan struct{}, admitted, refused *sync.Map) {
	for last := false; ; {
		found, err := t.Submissions(t.Context(), carillon.SubmissionQuery{Limit: 20})
		if err != nil {
			t.Error(err)
			return
		}
		var yes []carillon.JobID
		var no []carillon.Submission
		for _, s := range found {
			if s.ID%3 == 0 {
				refused.Store(s.ID, true)
				no = append(no, refusal(s, "by three"))
			} else {
				admitted.Store(s.ID, true)
				yes = append(yes, s.ID)
			}
		}
		if err := t.Acknowledge(t.Context(), yes, no); err != nil {
			t.Error(err)
			return
		}
		if len(found) == 0 && last {
			return
		}
		select {
		case <-done:
			last = true
		default:
		}
	}
}
