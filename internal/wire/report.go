package wire

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

// Reports is a message with reports of many attempts.
type Reports struct {
	Reports []Report `json:"reports"`
}

// Report is the news of one attempt. appendReport writes it.
type Report struct {
	Run              string          `json:"run_id"`
	Fence            string          `json:"fence"`
	Token            string          `json:"token"`
	Begun            carillon.Time   `json:"begun_at,omitzero"`
	Lines            []ReportLine    `json:"lines,omitempty"`
	Checkpoint       json.RawMessage `json:"checkpoint,omitempty"`
	CheckpointBase64 string          `json:"checkpoint_base64,omitempty"`
	End              *ReportEnd      `json:"end,omitempty"`
}

// ReportLine is a line that an attempt printed.
type ReportLine struct {
	Stream string        `json:"stream,omitempty"` // default stdout
	At     carillon.Time `json:"at,omitzero"`      // default now
	Text   string        `json:"text"`
	Offset *int          `json:"offset,omitempty"` // lines of the attempt before it; default: last offset + 1
}

// ReportEnd is how an attempt ended.
type ReportEnd struct {
	Outcome      string            `json:"outcome"`
	Reason       string            `json:"reason,omitempty"`
	Result       json.RawMessage   `json:"result,omitempty"`
	ResultBase64 string            `json:"result_base64,omitempty"`
	Started      carillon.Time     `json:"started_at,omitzero"`
	RetryAfter   carillon.Duration `json:"retry_after,omitzero"`
	Exit         int               `json:"exit,omitempty"`   // of a command that failed
	Status       int               `json:"status,omitempty"` // that an http target answered as it failed
}

// Receipts is the answer to Reports, in their order.
type Receipts struct {
	Receipts []protocol.Receipt `json:"receipts"`
}

// outcomes are the words for those that a worker can report. A worker cannot report that it died.
var outcomes = [...]string{
	carillon.OutcomeSuccess: "success", carillon.OutcomeRetriable: "retriable",
	carillon.OutcomeFatal: "fatal", carillon.OutcomeStopped: "stopped", carillon.OutcomeLost: "lost",
}

// maxReportBytes is where a message takes no more reports: a quarter of MaxLargeBody, because the last report
// comes on top.
const maxReportBytes = MaxLargeBody / 4

// AppendReports writes the first n reports: as many as fit into one message.
func AppendReports(b []byte, reports []protocol.Report) (body []byte, n int) {
	b = append(b, `{"reports":[`...)
	for n < min(len(reports), MaxReports) && len(b) < maxReportBytes {
		if n > 0 {
			b = append(b, ',')
		}
		b = appendReport(b, &reports[n])
		n++
	}
	return append(b, "]}"...), n
}

// appendReport writes a Report by hand, from its protocol.Report. It writes results and checkpoints in base64
// even if they are JSON: the reader refuses JSON that has the same key twice.
func appendReport(b []byte, r *protocol.Report) []byte {
	b = appendText(append(appendHeld(b, r.Held), `,"token":`...), r.Token)
	b = appendTime(b, `,"begun_at":`, r.Begun)
	for i := range r.Lines {
		if b = append(b, ','); i == 0 {
			b = append(b, `"lines":[`...)
		}
		b = appendLine(b, &r.Lines[i])
	}
	if len(r.Lines) > 0 {
		b = append(b, ']')
	}
	b = appendBytes(b, `,"checkpoint_base64":`, r.Checkpoint)
	if r.End != nil {
		b = appendEnd(b, r.End)
	}
	return append(b, '}')
}

// appendHeld begins an object with the attempt that it is about.
func appendHeld(b []byte, h carillon.Held) []byte {
	b = append(append(b, `{"run_id":"`...), h.Run.String()...)
	b = strconv.AppendInt(append(b, `","fence":"`...), h.Fence, 10)
	return append(b, '"')
}

// appendLine writes a ReportLine. Handlers can print to streams of any name; the reader knows three.
func appendLine(b []byte, l *carillon.Line) []byte {
	stream := "stdout"
	if l.Stream == "stderr" || l.Stream == "carillon" {
		stream = l.Stream
	}
	b = append(append(append(b, `{"stream":"`...), stream...), '"')
	b = appendTime(b, `,"at":`, l.At)
	b = appendText(append(b, `,"text":`...), l.Text)
	return append(strconv.AppendInt(append(b, `,"offset":`...), l.Offset, 10), '}')
}

func appendEnd(b []byte, o *carillon.Outcome) []byte {
	outcome := ""
	if int(o.Kind) < len(outcomes) {
		outcome = outcomes[o.Kind]
	}
	b = append(append(append(b, `,"end":{"outcome":"`...), outcome...), '"')
	if o.Reason != "" {
		b = appendText(append(b, `,"reason":`...), o.Reason)
	}
	if o.Output != nil {
		b = appendBytes(b, `,"result_base64":`, o.Output.Result)
	}
	b = appendTime(b, `,"started_at":`, o.Started)
	if o.RetryAfter > 0 {
		// The wire has no unit finer than a millisecond.
		wait := carillon.Duration((min(o.RetryAfter, maxWait) + time.Millisecond - 1).Truncate(
			time.Millisecond,
		))
		b = append(append(append(b, `,"retry_after":"`...), wait.String()...), '"')
	}
	b = appendNumber(b, `,"exit":`, int64(o.Exit))
	b = appendNumber(b, `,"status":`, int64(o.Status))
	return append(b, '}')
}

// appendNumber leaves a zero out.
func appendNumber(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), n, 10)
}

const maxWait = 100 * 365 * 24 * time.Hour // a longer wait means for ever
