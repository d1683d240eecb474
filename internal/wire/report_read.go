package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/jobjson"
	"github.com/carillon-run/carillon/worker/protocol"
)

// ReadReports reads and checks a message with reports. A line without a time was printed now.
func ReadReports(body []byte, now carillon.Time) ([]protocol.Report, error) {
	given, ok := quickReports(body)
	if !ok {
		var strict Reports
		if err := jobjson.Decode(body, &strict); err != nil {
			return nil, err
		}
		given = strict.Reports
	}
	if len(given) > MaxReports {
		return nil, &carillon.FieldError{
			Field: "reports", Given: strconv.Itoa(len(given)) + " reports",
			Want: "at most " + strconv.Itoa(MaxReports) + " at once",
		}
	}
	all := make([]protocol.Report, len(given))
	for i := range given {
		if fault := given[i].read(&all[i], now); fault != nil {
			return nil, fault.In("reports[" + strconv.Itoa(i) + "]")
		}
	}
	return all, nil
}

func (r *Report) read(into *protocol.Report, now carillon.Time) (fault *carillon.FieldError) {
	if into.Held, fault = heldOf(r.Run, r.Fence); fault != nil {
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

// heldOf reads an attempt by its run and fence.
func heldOf(run, fence string) (carillon.Held, *carillon.FieldError) {
	id, err := carillon.ParseRunID(run)
	if err != nil {
		return carillon.Held{}, &carillon.FieldError{
			Field: "run_id", Given: run, Want: "the run of a task: run_ and 23 characters",
		}
	}
	n, err := strconv.ParseInt(fence, 10, 64)
	held := carillon.Held{Run: id, Fence: n}
	if err != nil || n < 0 || held.Attempt() == 0 || strconv.FormatInt(n, 10) != fence {
		return held, &carillon.FieldError{
			Field: "fence", Given: fence, Want: "the fence that came with the run, as text",
		}
	}
	return held, nil
}

// maxOffset is the largest offset that a worker can give a line: JavaScript's numbers end there, and stores
// count on from it.
const maxOffset = 1 << 53

func readLines(given []ReportLine, attempt int32, now carillon.Time) ([]carillon.Line, *carillon.FieldError) {
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
			At: l.At, Stream: l.Stream, Text: withoutNUL(l.Text), Attempt: attempt, Offset: next,
		}
		next++
	}
	return lines, nil
}

// withoutNUL replaces the one character that PostgreSQL cannot store.
func withoutNUL(text string) string { return strings.ReplaceAll(text, "\x00", "\uFFFD") }

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

// maxStatus is the highest status that an HTTP answer can have: three digits.
const maxStatus = 999

// maxReason is where a reason is cut. Refusing a report with a long traceback would make the worker send it
// again and again.
const maxReason = 1 << 10

func (e *ReportEnd) outcome() (*carillon.Outcome, *carillon.FieldError) {
	kind := slices.Index(outcomes[:], e.Outcome)
	if kind <= 0 {
		return nil, &carillon.FieldError{
			Field: "outcome", Given: e.Outcome, Want: "success, retriable, fatal, stopped or lost",
		}
	}
	result, fault := bytesOf("result", e.Result, e.ResultBase64, carillon.MaxResult)
	if fault != nil {
		return nil, fault
	}
	switch {
	case e.Exit < 0 || e.Exit > math.MaxUint8:
		return nil, &carillon.FieldError{
			Field: "exit", Given: strconv.Itoa(e.Exit), Want: "the exit code of a command, 1 to 255",
		}
	case e.Status != 0 && (e.Status < 100 || e.Status > maxStatus):
		return nil, &carillon.FieldError{
			Field: "status", Given: strconv.Itoa(e.Status), Want: "the status of an HTTP answer, 100 to 999",
		}
	}
	o := &carillon.Outcome{
		Kind: carillon.OutcomeKind(kind), Reason: jobjson.Shorten(withoutNUL(e.Reason), maxReason),
		Started: e.Started, RetryAfter: e.RetryAfter.Std(),
		Exit: uint8(e.Exit), Status: uint16(e.Status),
	}
	if result != nil {
		o.Output = &carillon.Output{Result: result}
	}
	return o, nil
}

// quickReports reads reports in the form in which appendReport writes them. It is six times as fast as the
// strict decoder, and accepts nothing that the decoder would refuse. For any other form, even a valid one, ok
// is false.
func quickReports(body []byte) (all []Report, ok bool) {
	s := scan{rest: body}
	s.must(`{"reports":[`)
	all = make([]Report, 0, min(bytes.Count(body, []byte(`{"run_id":"`)), MaxReports))
	s.list(func() {
		all = append(all, Report{})
		s.report(&all[len(all)-1])
	})
	s.must(`}`)
	return all, !s.bad && len(s.rest) == 0 && len(all) <= MaxReports
}

func (s *scan) report(r *Report) {
	s.must(`{"run_id":"`)
	r.Run = s.text()
	s.must(`,"fence":"`)
	r.Fence = s.text()
	s.must(`,"token":"`)
	r.Token = s.text()
	if s.has(`,"begun_at":"`) {
		r.Begun = s.time()
	}
	if s.has(`,"lines":[`) {
		s.list(func() { r.Lines = append(r.Lines, s.line()) })
		s.bad = s.bad || len(r.Lines) > maxQuickLines
	}
	if s.has(`,"checkpoint_base64":"`) {
		r.CheckpointBase64 = s.text()
	}
	if s.has(`,"end":{"outcome":"`) {
		r.End = s.end()
	}
	s.must(`}`)
}

// maxQuickLines is below the number of items that the strict decoder accepts in a list.
const maxQuickLines = 1 << 15

func (s *scan) line() (l ReportLine) {
	s.must(`{"stream":"`)
	l.Stream = s.text()
	if s.has(`,"at":"`) {
		l.At = s.time()
	}
	s.must(`,"text":"`)
	l.Text = s.text()
	s.must(`,"offset":`)
	offset := s.number(math.MaxInt) // it has nine digits at most, or the strict decoder reads it
	l.Offset = &offset
	s.must(`}`)
	return l
}

func (s *scan) end() *ReportEnd {
	e := &ReportEnd{Outcome: s.text()}
	if s.has(`,"reason":"`) {
		e.Reason = s.text()
	}
	if s.has(`,"result_base64":"`) {
		e.ResultBase64 = s.text()
	}
	if s.has(`,"started_at":"`) {
		e.Started = s.time()
	}
	if s.has(`,"retry_after":"`) {
		e.RetryAfter = s.duration()
	}
	if s.has(`,"exit":`) {
		e.Exit = s.number(math.MaxUint8)
	}
	if s.has(`,"status":`) {
		e.Status = s.number(maxStatus)
	}
	s.must(`}`)
	return e
}
