package api

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/jobjson"
)

// tasks is the answer to a pull. It is only for the description: appendTask writes the answer, and a test
// checks that the two agree.
type tasks struct {
	Tasks []task `json:"tasks"`
}

type task struct {
	Run              carillon.RunID    `json:"run"`
	Fence            string            `json:"fence"` // text, because JavaScript's numbers end at 2^53
	Attempt          int32             `json:"attempt"`
	Token            string            `json:"token"`
	Namespace        string            `json:"namespace"`
	Job              carillon.JobID    `json:"job_id"`
	Name             string            `json:"name"`
	Type             string            `json:"type"`
	Queue            string            `json:"queue"`
	Priority         int8              `json:"priority"`
	Due              carillon.Time     `json:"due_at"`
	Covers           carillon.Time     `json:"covers,omitzero"`
	Timeout          carillon.Duration `json:"timeout,omitzero"`
	Payload          json.RawMessage   `json:"payload"`
	Target           carillon.Target   `json:"target"`
	Labels           map[string]string `json:"labels,omitempty"`
	Checkpoint       json.RawMessage   `json:"checkpoint,omitempty"`        // of an earlier attempt, if JSON
	CheckpointBase64 string            `json:"checkpoint_base64,omitempty"` // the same if it is not JSON
}

// buffers holds buffers for answers to pulls: tens of thousands of tasks pass in a second.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

const maxPooled = 4 << 20 // one answer with large payloads must not stay in memory for good

func (s *server) writeTasks(w http.ResponseWriter, namespace string, tasks []carillon.Task) {
	buffer := buffers.Get().(*[]byte)
	b := append((*buffer)[:0], `{"tasks":[`...)
	for i := range tasks {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.appendTask(b, namespace, &tasks[i])
	}
	b = append(b, "]}\n"...)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b) // an error means that the worker has gone; its runs are taken back
	if *buffer = b; cap(b) <= maxPooled {
		buffers.Put(buffer)
	}
}

// appendTask writes a task by hand, because encoding/json would take four times as long. The token is for the
// namespace of the worker that pulled the task, because the same worker reports.
func (s *server) appendTask(b []byte, namespace string, t *carillon.Task) []byte {
	run, job := &t.Run, t.Job
	b = append(append(b, `{"run":"`...), run.ID.String()...)
	b = strconv.AppendInt(append(b, `","fence":"`...), run.Fence(), 10)
	b = strconv.AppendInt(append(b, `","attempt":`...), int64(run.Attempt), 10)
	b = s.seal.append(append(b, `,"token":"`...), namespace, t.Held())
	b = appendText(append(b, `","namespace":`...), run.Namespace)
	b = append(append(b, `,"job_id":"`...), run.ID.Job.String()...)
	b = appendText(append(b, `","name":`...), job.Name)
	b = appendText(append(b, `,"type":`...), job.Type)
	b = appendText(append(b, `,"queue":`...), run.Queue)
	b = strconv.AppendInt(append(b, `,"priority":`...), int64(run.Priority), 10)
	b = append(append(b, `,"due_at":"`...), run.ID.Due.String()...)
	if run.Covers != 0 {
		b = append(append(b, `","covers":"`...), run.Covers.String()...)
	}
	if job.Timeout != 0 {
		b = append(append(b, `","timeout":"`...), job.Timeout.String()...)
	}
	b = appendRaw(append(b, `","payload":`...), job.Payload)
	b = appendTarget(append(b, `,"target":`...), &job.Target)
	if len(job.Labels) > 0 {
		b = appendAny(append(b, `,"labels":`...), job.Labels)
	}
	return append(appendCheckpoint(b, t.Checkpoint), '}')
}

// appendTarget has a fast path for the target that most workers are for.
func appendTarget(b []byte, target *carillon.Target) []byte {
	if target.Handler != nil {
		return append(b, `{"handler":{}}`...)
	}
	return appendAny(b, target)
}

// appendCheckpoint writes JSON as JSON, which is what most workers save. It writes anything else in base64,
// so that no byte is lost.
func appendCheckpoint(b, checkpoint []byte) []byte {
	switch {
	case len(checkpoint) == 0:
		return b
	case json.Valid(checkpoint) && len(strings.TrimSpace(string(checkpoint))) == len(checkpoint):
		return append(append(b, `,"checkpoint":`...), checkpoint...)
	}
	b = base64.StdEncoding.AppendEncode(append(b, `,"checkpoint_base64":"`...), checkpoint)
	return append(b, '"')
}

func appendRaw(b, raw []byte) []byte {
	if len(raw) == 0 {
		return append(b, "null"...)
	}
	return append(b, raw...)
}

func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return appendAny(b, s)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

func appendAny(b []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // made of text, numbers, lists and maps of text only
	}
	return append(b, text...)
}

// reports is a message with reports of many attempts.
type reports struct {
	Reports []report `json:"reports"`
}

type report struct {
	Run              string          `json:"run"`
	Fence            string          `json:"fence"`
	Token            string          `json:"token"`
	Begun            carillon.Time   `json:"begun_at"`
	Lines            []reportLine    `json:"lines"`
	Checkpoint       json.RawMessage `json:"checkpoint"`
	CheckpointBase64 string          `json:"checkpoint_base64"`
	End              *reportEnd      `json:"end,omitempty"`
}

type reportLine struct {
	At     carillon.Time `json:"at"`     // default now
	Stream string        `json:"stream"` // default stdout
	Text   string        `json:"text"`
	Offset *int          `json:"offset,omitempty"` // lines of the attempt before it; default: last offset + 1
}

type reportEnd struct {
	Outcome      string            `json:"outcome"`
	Reason       string            `json:"reason"`
	Result       json.RawMessage   `json:"result"`
	ResultBase64 string            `json:"result_base64"`
	Started      carillon.Time     `json:"started_at"`
	RetryAfter   carillon.Duration `json:"retry_after"`
}

func (r *reports) reports(now carillon.Time) ([]carillon.Report, error) {
	if len(r.Reports) > maxReports {
		return nil, invalid(
			"reports", strconv.Itoa(len(r.Reports))+" reports",
			"at most "+strconv.Itoa(maxReports)+" at once",
		)
	}
	all := make([]carillon.Report, len(r.Reports))
	for i := range r.Reports {
		if err := r.Reports[i].read(&all[i], now); err != nil {
			return nil, err.In("reports[" + strconv.Itoa(i) + "]")
		}
	}
	return all, nil
}

func (r *report) read(into *carillon.Report, now carillon.Time) (fault *carillon.FieldError) {
	if into.Held, fault = attemptOf(r.Run, r.Fence); fault != nil {
		return fault
	}
	into.Token, into.Begun = r.Token, r.Begun
	if into.Lines, fault = readLines(r.Lines, into.Attempt(), now); fault != nil {
		return fault
	}
	if into.Checkpoint, fault = bytesOf(
		"checkpoint", r.Checkpoint, r.CheckpointBase64, carillon.MaxCheckpoint,
	); fault != nil {
		return fault
	}
	if r.End != nil {
		if into.End, fault = r.End.outcome(); fault != nil {
			return fault.In("end")
		}
	}
	return nil
}

// attemptOf reads an attempt by its run and fence.
func attemptOf(run, fence string) (carillon.Held, *carillon.FieldError) {
	id, err := carillon.ParseRunID(run)
	if err != nil {
		return carillon.Held{}, &carillon.FieldError{
			Field: "run", Given: run, Want: "the run of a task: run_ and 23 characters",
		}
	}
	n, err := strconv.ParseInt(fence, 10, 64)
	held := carillon.Held{Run: id, Fence: n}
	if err != nil || n < 0 || held.Attempt() == 0 || fenceOf(held) != fence {
		return held, &carillon.FieldError{
			Field: "fence", Given: fence, Want: "the fence that came with the run, as text",
		}
	}
	return held, nil
}

func fenceOf(held carillon.Held) string { return strconv.FormatInt(held.Fence, 10) }

// maxOffset is the largest offset that a worker can give a line: JavaScript's numbers end there, and stores
// count on from it.
const maxOffset = 1 << 53

func readLines(given []reportLine, attempt int32, now carillon.Time) ([]carillon.Line, *carillon.FieldError) {
	if len(given) == 0 {
		return nil, nil
	}
	lines := make([]carillon.Line, len(given))
	next := int64(0)
	for i, l := range given {
		field := func(name string) string { return "lines[" + strconv.Itoa(i) + "]." + name }
		switch l.Stream {
		case "":
			l.Stream = "stdout"
		case "stdout", "stderr", "carillon":
		default:
			return nil, &carillon.FieldError{
				Field: field("stream"), Given: l.Stream,
				Want: "stdout, stderr, or carillon for the worker's own words",
			}
		}
		if l.Offset != nil {
			if *l.Offset < 0 || int64(*l.Offset) > maxOffset || i > 0 && int64(*l.Offset) != next {
				return nil, &carillon.FieldError{
					Field: field("offset"), Given: strconv.Itoa(*l.Offset),
					Want: "how many lines the attempt printed before it, one more with each line",
				}
			}
			next = int64(*l.Offset)
		}
		if l.At == 0 {
			l.At = now
		}
		lines[i] = carillon.Line{
			At: l.At, Stream: l.Stream, Text: strings.ReplaceAll(l.Text, "\x00", "\uFFFD"), Attempt: attempt,
			Offset: next,
		}
		next++
	}
	return lines, nil
}

// bytesOf returns a result or a checkpoint: JSON as it was written, or any bytes that came in base64.
func bytesOf(field string, raw json.RawMessage, text string, most int) ([]byte, *carillon.FieldError) {
	if string(raw) == "null" {
		raw = nil
	}
	if text != "" {
		if raw != nil {
			return nil, &carillon.FieldError{
				Field: field + "_base64", Given: field + " too",
				Want: "one of " + field + " and " + field + "_base64",
			}
		}
		decoded, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, &carillon.FieldError{
				Field: field + "_base64", Given: text, Want: "base64 with padding",
			}
		}
		field, raw = field+"_base64", decoded
	}
	if len(raw) > most {
		return nil, &carillon.FieldError{
			Field: field, Given: strconv.Itoa(len(raw)) + " bytes",
			Want: "at most " + strconv.Itoa(most>>10) + " KiB; keep more elsewhere and pass its address",
		}
	}
	return raw, nil
}

// outcomes are those that a worker can report. A worker cannot report that it died.
var outcomes = map[string]carillon.OutcomeKind{
	"success": carillon.OutcomeSuccess, "retriable": carillon.OutcomeRetriable,
	"fatal": carillon.OutcomeFatal, "stopped": carillon.OutcomeStopped, "lost": carillon.OutcomeLost,
}

// maxReason is where a reason is cut. Refusing a report with a long traceback would make the worker send it
// again and again.
const maxReason = 1 << 10

func (e *reportEnd) outcome() (*carillon.Outcome, *carillon.FieldError) {
	kind, ok := outcomes[e.Outcome]
	if !ok {
		return nil, &carillon.FieldError{
			Field: "outcome", Given: e.Outcome, Want: "success, retriable, fatal, stopped or lost",
		}
	}
	result, fault := bytesOf("result", e.Result, e.ResultBase64, carillon.MaxResult)
	if fault != nil {
		return nil, fault
	}
	o := &carillon.Outcome{
		Kind: kind, Reason: jobjson.Shorten(strings.ReplaceAll(e.Reason, "\x00", "\uFFFD"), maxReason),
		Started: e.Started, RetryAfter: e.RetryAfter.Std(),
	}
	if result != nil {
		o.Output = &carillon.Output{Result: result}
	}
	return o, nil
}
