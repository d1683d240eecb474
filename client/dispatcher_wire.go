package client

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/carillon-run/carillon"
)

// The messages of docs/worker-protocol.md, with the fields that this side needs.
type (
	registrationJSON struct {
		Name string `json:"name,omitempty"`
		carillon.Profile
	}
	pullJSON struct {
		Queues []string `json:"queues,omitempty"`
		Max    int      `json:"max"`
	}
	tasksJSON struct {
		Tasks []taskJSON `json:"tasks"`
	}
	// taskJSON leaves out the fields that the run's id contains: job and due time.
	taskJSON struct {
		Run              carillon.RunID    `json:"run"`
		Fence            int64             `json:"fence,string"`
		Attempt          int32             `json:"attempt"`
		Token            string            `json:"token"`
		Namespace        string            `json:"namespace"`
		Name             string            `json:"name"`
		Type             string            `json:"type"`
		Queue            string            `json:"queue"`
		Priority         int8              `json:"priority"`
		Covers           carillon.Time     `json:"covers"`
		Timeout          carillon.Duration `json:"timeout"`
		Payload          json.RawMessage   `json:"payload"`
		Target           carillon.Target   `json:"target"`
		Labels           map[string]string `json:"labels"`
		Checkpoint       json.RawMessage   `json:"checkpoint"`
		CheckpointBase64 []byte            `json:"checkpoint_base64"`
	}
	ordersJSON struct {
		Stop []struct {
			Run    carillon.RunID `json:"run"`
			Fence  string         `json:"fence"`
			Lost   bool           `json:"lost"`
			Reason string         `json:"reason"`
		} `json:"stop"`
		Nodes []string `json:"nodes"`
	}
)

// How much goes into one request, so that the server takes it.
const (
	maxPull        = 1000
	maxReports     = 5000
	maxReportBytes = 4 << 20 // a quarter of the limit: the last report comes on top
	maxLineBytes   = 1 << 20 // of one report; six times as much when every character must be escaped
)

func readTasks(body []byte, worker string) ([]carillon.Task, error) {
	var answer tasksJSON
	ok := false
	if answer.Tasks, ok = quickTasks(body); !ok {
		answer.Tasks = nil
		if err := json.Unmarshal(body, &answer); err != nil {
			return nil, err
		}
	}
	tasks := make([]carillon.Task, len(answer.Tasks))
	jobs := make([]carillon.Job, len(answer.Tasks))
	for i := range answer.Tasks {
		t := &answer.Tasks[i]
		t.fill(&tasks[i], &jobs[i])
		tasks[i].Run.Worker = worker
	}
	return tasks, nil
}

func (t *taskJSON) fill(task *carillon.Task, job *carillon.Job) {
	if string(t.Payload) == "null" {
		t.Payload = nil
	}
	*job = carillon.Job{
		Namespace: t.Namespace, ID: t.Run.Job, State: carillon.JobActive,
		Definition: carillon.Definition{
			Name: t.Name, Type: t.Type, Queue: t.Queue, Priority: int(t.Priority), Payload: t.Payload,
			Target:  t.Target,
			Timeout: t.Timeout, Labels: t.Labels,
		},
	}
	task.Run = carillon.Run{
		ID: t.Run, Namespace: t.Namespace, Queue: t.Queue, Priority: t.Priority, Covers: t.Covers,
		Attempt: t.Attempt, State: carillon.StateClaimed,
		Claimed: carillon.Held{Fence: t.Fence}.Claimed(),
	}
	task.Job, task.Token, task.Checkpoint = job, t.Token, t.Checkpoint
	if t.CheckpointBase64 != nil {
		task.Checkpoint = t.CheckpointBase64
	}
}

func (o *ordersJSON) orders() (carillon.Orders, error) {
	told := carillon.Orders{Nodes: o.Nodes}
	for _, s := range o.Stop {
		fence, err := strconv.ParseInt(s.Fence, 10, 64)
		if err != nil {
			return told, err
		}
		held := carillon.Held{Run: s.Run, Fence: fence}
		told.Stop = append(told.Stop, carillon.Order{Held: held, Lost: s.Lost, Reason: s.Reason})
	}
	return told, nil
}

func appendBeat(beat carillon.Beat) []byte {
	b := make([]byte, 0, 48+80*len(beat.Holds))
	b = strconv.AppendInt(append(b, `{"number":`...), beat.Number, 10)
	b = append(b, `,"holds":[`...)
	for i, h := range beat.Holds {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendHeld(b, h), '}')
	}
	b = append(b, ']')
	if beat.Stopping {
		b = append(b, `,"stopping":true`...)
	}
	return append(b, '}')
}

// appendHeld begins an object with the attempt that it is about.
func appendHeld(b []byte, h carillon.Held) []byte {
	b = append(append(b, `{"run":"`...), h.Run.String()...)
	b = strconv.AppendInt(append(b, `","fence":"`...), h.Fence, 10)
	return append(b, '"')
}

// appendReports writes the first n reports: as many as fit into one message.
func appendReports(reports []carillon.Report) (body []byte, n int) {
	body = append(body, `{"reports":[`...)
	for n < len(reports) && len(body) < maxReportBytes {
		if n > 0 {
			body = append(body, ',')
		}
		body = appendReport(body, &reports[n])
		n++
	}
	return append(body, "]}"...), n
}

// cut splits reports whose lines do not fit into one message; of says which report each piece belongs to. The
// last piece has the parts that come after the lines.
func cut(reports []carillon.Report) (pieces []carillon.Report, of []int) {
	pieces, of = make([]carillon.Report, 0, len(reports)), make([]int, 0, len(reports))
	for i, r := range reports {
		for n := fitting(r.Lines); n < len(r.Lines); n = fitting(r.Lines) {
			pieces, of = append(pieces, carillon.Report{
				Held: r.Held, Token: r.Token, Begun: r.Begun, Lines: r.Lines[:n],
			}), append(of, i)
			r.Begun, r.Lines = 0, r.Lines[n:]
		}
		pieces, of = append(pieces, r), append(of, i)
	}
	return pieces, of
}

// fitting is how many of the lines, at least one, go into one report: consecutive lines, up to a size.
func fitting(lines []carillon.Line) (n int) {
	for size := 0; n < len(lines); n++ {
		if n > 0 && (size+len(lines[n].Text) > maxLineBytes || lines[n].Offset != lines[n-1].Offset+1) {
			break
		}
		size += len(lines[n].Text) + 80 // for the JSON around it
	}
	return n
}

func appendReport(b []byte, r *carillon.Report) []byte {
	b = appendText(append(appendHeld(b, r.Held), `,"token":`...), r.Token)
	if r.Begun != 0 {
		b = appendTime(b, `,"begun_at":`, r.Begun)
	}
	for i := range r.Lines {
		l := &r.Lines[i]
		if b = append(b, ','); i == 0 {
			b = append(b, `"lines":[`...)
		}
		b = append(append(append(b, `{"stream":"`...), stream(l.Stream)...), '"')
		if l.At != 0 {
			b = appendTime(b, `,"at":`, l.At)
		}
		b = appendText(append(b, `,"text":`...), l.Text)
		b = append(strconv.AppendInt(append(b, `,"offset":`...), l.Offset, 10), '}')
	}
	if len(r.Lines) > 0 {
		b = append(b, ']')
	}
	b = appendBytes(b, `,"checkpoint_base64":"`, r.Checkpoint)
	if r.End != nil {
		b = appendEnd(b, r.End)
	}
	return append(b, '}')
}

// stream is the name of a stream that the server knows: handlers can print to any.
func stream(name string) string {
	if name == "stderr" || name == "carillon" {
		return name
	}
	return "stdout"
}

var outcomes = map[carillon.OutcomeKind]string{
	carillon.OutcomeSuccess: "success", carillon.OutcomeRetriable: "retriable",
	carillon.OutcomeFatal: "fatal", carillon.OutcomeStopped: "stopped", carillon.OutcomeLost: "lost",
}

func appendEnd(b []byte, o *carillon.Outcome) []byte {
	b = append(append(append(b, `,"end":{"outcome":"`...), outcomes[o.Kind]...), '"')
	if o.Reason != "" {
		b = appendText(append(b, `,"reason":`...), o.Reason)
	}
	if o.Output != nil {
		b = appendBytes(b, `,"result_base64":"`, o.Output.Result)
	}
	if o.Started != 0 {
		b = appendTime(b, `,"started_at":`, o.Started)
	}
	if o.RetryAfter > 0 {
		// The wire has no unit finer than a millisecond.
		wait := carillon.Duration((min(o.RetryAfter, maxWait) + time.Millisecond - 1).Truncate(
			time.Millisecond,
		))
		b = append(append(append(b, `,"retry_after":"`...), wait.String()...), '"')
	}
	return append(b, '}')
}

const maxWait = 100 * 365 * 24 * time.Hour // a longer wait means for ever

func appendTime(b []byte, name string, t carillon.Time) []byte {
	return append(append(append(append(b, name...), '"'), t.String()...), '"')
}

// appendBytes writes results and checkpoints in base64 even if they are JSON: the server refuses JSON that
// has the same key twice.
func appendBytes(b []byte, name string, value []byte) []byte {
	if len(value) == 0 {
		return b
	}
	return append(base64.StdEncoding.AppendEncode(append(b, name...), value), '"')
}

func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			quoted, _ := json.Marshal(s) // a string always marshals
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
