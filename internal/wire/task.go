package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

// Tasks is the answer to a pull.
type Tasks struct {
	Tasks []Task `json:"tasks"`
}

// Task is a run that was claimed for a worker. appendTask writes it.
type Task struct {
	Run              carillon.RunID    `json:"run_id"`
	Fence            int64             `json:"fence,string"` // text, because JavaScript's numbers end at 2^53
	Attempt          int32             `json:"attempt"`
	Token            string            `json:"token"`
	Namespace        string            `json:"namespace"`
	Job              carillon.JobID    `json:"job_id"` // as in the run's id, for people
	Name             string            `json:"name"`
	Type             string            `json:"type"`
	Queue            string            `json:"queue"`
	Priority         int8              `json:"priority"`
	Due              carillon.Time     `json:"due_at"` // as in the run's id
	Covers           carillon.Time     `json:"covers_at,omitzero"`
	Timeout          carillon.Duration `json:"timeout,omitzero"`
	Payload          json.RawMessage   `json:"payload"`
	Target           carillon.Target   `json:"target"`
	Labels           map[string]string `json:"labels,omitempty"`
	Checkpoint       json.RawMessage   `json:"checkpoint,omitempty"`        // of an earlier attempt, if JSON
	CheckpointBase64 []byte            `json:"checkpoint_base64,omitempty"` // the same if it is not JSON
}

// AppendTasks writes the answer to a pull. token appends the token of an attempt to b.
func AppendTasks(
	b []byte, tasks []protocol.Task, token func(b []byte, t *protocol.Task) []byte,
) []byte {
	b = append(b, `{"tasks":[`...)
	for i := range tasks {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendTask(b, &tasks[i], token)
	}
	return append(b, "]}\n"...)
}

// appendTask writes a Task by hand, because encoding/json would take four times as long.
func appendTask(b []byte, t *protocol.Task, token func(b []byte, t *protocol.Task) []byte) []byte {
	run, job := &t.Run, t.Job
	b = append(append(b, `{"run_id":"`...), run.ID.String()...)
	b = strconv.AppendInt(append(b, `","fence":"`...), run.Fence(), 10)
	b = strconv.AppendInt(append(b, `","attempt":`...), int64(run.Attempt), 10)
	b = token(append(b, `,"token":"`...), t)
	b = appendText(append(b, `","namespace":`...), run.Namespace)
	b = append(append(b, `,"job_id":"`...), run.ID.Job.String()...)
	b = appendText(append(b, `","name":`...), job.Name)
	b = appendText(append(b, `,"type":`...), job.Type)
	b = appendText(append(b, `,"queue":`...), run.Queue)
	b = strconv.AppendInt(append(b, `,"priority":`...), int64(run.Priority), 10)
	b = appendTime(b, `,"due_at":`, run.ID.Due)
	b = appendTime(b, `,"covers_at":`, run.Covers)
	if job.Timeout != 0 {
		b = append(append(append(b, `,"timeout":"`...), job.Timeout.String()...), '"')
	}
	b = appendRaw(append(b, `,"payload":`...), job.Payload)
	b = appendTarget(append(b, `,"target":`...), &job.Target)
	if len(job.Labels) > 0 {
		b = appendAny(append(b, `,"labels":`...), job.Labels)
	}
	return append(appendCheckpoint(b, t.Checkpoint), '}')
}

const handlerJSON = `{"handler":{}}`

// appendTarget has a fast path for the target that most workers are for.
func appendTarget(b []byte, target *carillon.Target) []byte {
	if target.Handler != nil {
		return append(b, handlerJSON...)
	}
	return appendAny(b, target)
}

// appendCheckpoint writes JSON as JSON, which is what most workers save. It writes anything else in base64,
// so that no byte is lost.
func appendCheckpoint(b, checkpoint []byte) []byte {
	if len(checkpoint) > 0 && json.Valid(checkpoint) &&
		len(strings.TrimSpace(string(checkpoint))) == len(checkpoint) {
		return append(append(b, `,"checkpoint":`...), checkpoint...)
	}
	return appendBytes(b, `,"checkpoint_base64":`, checkpoint)
}

// ReadTasks reads the answer to a pull of the worker.
func ReadTasks(body []byte, worker string) ([]protocol.Task, error) {
	all, ok := quickTasks(body)
	if !ok {
		var answer Tasks
		if err := json.Unmarshal(body, &answer); err != nil {
			return nil, err
		}
		all = answer.Tasks
	}
	tasks, jobs := make([]protocol.Task, len(all)), make([]carillon.Job, len(all))
	for i := range all {
		all[i].fill(&tasks[i], &jobs[i])
		tasks[i].Run.Worker = worker
	}
	return tasks, nil
}

func (t *Task) fill(task *protocol.Task, job *carillon.Job) {
	if string(t.Payload) == "null" {
		t.Payload = nil
	}
	*job = carillon.Job{
		Namespace: t.Namespace, ID: t.Run.Job, State: carillon.JobActive,
		Definition: carillon.Definition{
			Name: t.Name, Type: t.Type, Queue: t.Queue, Priority: int(t.Priority), Payload: t.Payload,
			Target: t.Target, Timeout: t.Timeout, Labels: t.Labels,
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

// quickTasks reads tasks in the form in which appendTask writes them, in a third of the time of
// encoding/json. For any other form, even a correct one, ok is false.
func quickTasks(body []byte) (all []Task, ok bool) {
	s := scan{rest: body}
	s.must(`{"tasks":[`)
	all = make([]Task, 0, min(bytes.Count(body, []byte(`{"run_id":"`)), MaxPull))
	before := &Task{}
	s.list(func() {
		all = append(all, Task{})
		this := &all[len(all)-1]
		s.task(this, before)
		before = this
	})
	s.must(`}`)
	return all, !s.bad && len(bytes.TrimSpace(s.rest)) == 0
}

// task reads one task. It shares strings with the task before where they are equal.
func (s *scan) task(t, before *Task) {
	s.must(`{"run_id":"`)
	id, err := carillon.ParseRunID(s.text())
	t.Run, s.bad = id, s.bad || err != nil
	s.must(`,"fence":"`)
	t.Fence = s.fence()
	s.must(`,"attempt":`)
	t.Attempt = int32(s.number(math.MaxInt32))
	s.must(`,"token":"`)
	t.Token = s.text()
	s.must(`,"namespace":"`)
	t.Namespace = s.textLike(before.Namespace)
	s.must(`,"job_id":"`)
	t.Job, err = carillon.ParseJobID(s.text())
	s.bad = s.bad || err != nil
	s.must(`,"name":"`)
	t.Name = s.textLike(before.Name)
	s.must(`,"type":"`)
	t.Type = s.textLike(before.Type)
	s.must(`,"queue":"`)
	t.Queue = s.textLike(before.Queue)
	s.must(`,"priority":`)
	t.Priority = int8(s.number(math.MaxInt8))
	s.must(`,"due_at":"`)
	t.Due = s.time()
	if s.has(`,"covers_at":"`) {
		t.Covers = s.time()
	}
	if s.has(`,"timeout":"`) {
		t.Timeout = s.duration()
	}
	s.must(`,"payload":`)
	t.Payload = s.value()
	s.must(`,"target":`)
	if s.has(handlerJSON) {
		t.Target.Handler = &carillon.Handler{}
	} else {
		s.any(&t.Target)
	}
	if s.has(`,"labels":`) {
		s.any(&t.Labels)
	}
	s.checkpoint(t)
	s.must(`}`)
}

func (s *scan) checkpoint(t *Task) {
	switch {
	case s.has(`,"checkpoint":`):
		t.Checkpoint = s.value()
		s.bad = s.bad || t.Checkpoint == nil // a saved null is a checkpoint too
	case s.has(`,"checkpoint_base64":"`):
		decoded, err := base64.StdEncoding.DecodeString(s.text())
		t.CheckpointBase64, s.bad = decoded, s.bad || err != nil
	}
}
