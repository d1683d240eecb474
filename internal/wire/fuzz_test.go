package wire

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

// FuzzRoundTrip makes a task and a report of any texts, numbers and bytes. What the reader makes of the
// written message must be equal.
func FuzzRoundTrip(f *testing.F) {
	f.Add("a mail", "x0Jt3", []byte(`{"to":"ann"}`), []byte("half"), int64(1), int64(2), uint8(1))
	f.Add("\x00\u2028\\\"<ü>", "", []byte(`"}"`), []byte(`null`), int64(1)<<40, int64(1)<<50, uint8(5))
	f.Add("", "ü", []byte(nil), []byte(nil), int64(7), int64(0), uint8(0))
	f.Fuzz(func(t *testing.T, text, proof string, payload, bytes []byte, job, n int64, kind uint8) {
		text, proof = strings.ToValidUTF8(text, "?"), strings.ToValidUTF8(proof, "?")
		tasks := []protocol.Task{fullTask(), fullTask()}
		task := &tasks[1]
		task.Job.Name, task.Job.Type, task.Job.Labels = text, proof, map[string]string{text: proof}
		task.Checkpoint, task.Token = bytes, "x"
		task.Job.Payload = nil
		if json.Valid(payload) && len(strings.TrimSpace(string(payload))) == len(payload) &&
			string(payload) != "null" {
			task.Job.Payload = payload
		}
		task.Run.ID = carillon.RunID{Job: carillon.JobID(max(job, 1)), Due: now + carillon.Time(uint32(n))}
		task.Job.ID, task.Run.Covers = task.Run.ID.Job, carillon.Time(uint32(job))*1000
		task.Run.Priority = int8(kind % 10)
		task.Job.Priority = int(task.Run.Priority)
		body := AppendTasks(nil, tasks, token)
		compareTasks(t, body)
		read, err := ReadTasks(body, "worker_1")
		equal(t, body, tasks, read, err)

		reports := []protocol.Report{fullReport(), fullReport()}
		r := &reports[1]
		r.Run, r.Token, r.Begun = task.Run.ID, proof, task.Run.Covers
		r.Lines[0].Text, r.Lines[1].Text, r.Checkpoint = strings.ReplaceAll(text, "\x00", ""), "", bytes
		if r.End.Kind = carillon.OutcomeKind(kind%5 + 1); kind > 100 {
			r.End = nil
		} else {
			r.End.Reason = strings.ReplaceAll(proof, "\x00", "")
			r.End.Output = &carillon.Output{Result: payload}
			r.End.RetryAfter = time.Duration(uint32(n)) * time.Millisecond
			r.End.Exit, r.End.Status = kind, 0
			if n > 0 {
				r.End.Status = 100 + uint16(n%900)
			}
		}
		if len(proof) > maxReason ||
			len(payload) > carillon.MaxResult || len(bytes) > carillon.MaxCheckpoint {
			return
		}
		body, _ = AppendReports(nil, reports)
		_, quick := quickReports(body)
		compareReports(t, string(body), quick)
		got, err := ReadReports(body, now)
		equal(t, body, reports, got, err)

		beat := carillon.Beat{Number: max(n, 1), Holds: []carillon.Held{r.Held}, Stopping: kind > 100}
		beat.Heard = beat.Number / 2
		body = AppendBeat(nil, &beat)
		gotBeat, err := ReadBeat(body)
		equal(t, body, beat, gotBeat, err)

		problem := Problem{Type: text, Title: proof, Status: int(kind), Field: proof, Given: text}
		var gotProblem Problem
		body, err = json.Marshal(problem)
		err = errors.Join(err, json.Unmarshal(body, &gotProblem))
		if problem.Field == "" {
			problem.Given = "" // only a field has a given value
		}
		equal(t, body, problem, gotProblem, err)
	})
}

func equal(t *testing.T, body []byte, written, read any, err error) {
	t.Helper()
	options := cmp.Options{
		cmp.AllowUnexported(carillon.Schedule{}), cmpopts.EquateEmpty(),
		// No result and an empty one are the same.
		cmp.Transformer("result", func(o *carillon.Output) []byte {
			if o == nil {
				return nil
			}
			return o.Result
		}),
	}
	if diff := cmp.Diff(written, read, options); err != nil || diff != "" {
		t.Errorf("%s: %v (-written +read):\n%s", body, err, diff)
	}
}

// FuzzReaders reads any text in both ways.
func FuzzReaders(f *testing.F) {
	for _, items := range quickItems {
		f.Add([]byte(`{"reports":[` + items + `]}`))
	}
	f.Add(AppendTasks(nil, []protocol.Task{fullTask(), fullTask()}, token))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, ok := quickReports(body)
		compareReports(t, string(body), ok)
		compareTasks(t, body)
	})
}
