package chaos

import (
	"context"
	"strconv"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/client"
)

const (
	sampledLogs  = 40 // how many logs are compared with what the bodies wrote
	askedAgain   = 50 // how many submits without an answer are looked up a second time
	pageOfRecord = 1000
)

// history collects everything that the witnesses and the callers know, and what Carillon says.
func (tr *trial) history() *check.History {
	tr.t.Helper()
	left := tr.leaks()
	h := &check.History{
		Allowance: tr.allowance, Busy: tr.busy, Left: left, Writes: tr.register.Writes(), Looks: tr.looks,
	}
	for _, f := range tr.faults {
		h.Faults = append(h.Faults, *f)
	}
	h.Jobs = tr.jobs()
	found := map[string]carillon.JobID{}
	for _, job := range h.Jobs {
		found[job.Key] = job.ID
	}
	h.Records = tr.records()
	h.Left = append(h.Left, tr.surplusRows(len(h.Jobs))...)
	h.Logs = tr.output(h)
	again := 0
	for _, c := range tr.commands {
		if c.Verb == check.VerbSubmit && c.Answer == check.AnswerUnknown {
			if c.Job = found[c.Key]; again < askedAgain {
				again++
				tr.stable(c)
			}
		}
		h.Commands = append(h.Commands, c)
	}
	lines, err := check.Read(tr.witness)
	if err != nil {
		tr.t.Fatal(err)
	}
	h.Lines = lines
	return h
}

// jobs are the jobs that callers asked for, with what Carillon says only where a caller got no answer: the id
// and the first due time.
func (tr *trial) jobs() (jobs []check.Job) {
	tr.t.Helper()
	listed := make([]bool, len(tr.plans))
	all(tr.cluster, func(api *client.Client, cursor client.Cursor) (client.Page[client.ListedJob], error) {
		return api.JobPage(tr.ctx, carillon.JobQuery{Limit: pageOfRecord}, cursor)
	}, func(job client.ListedJob) {
		n, err := strconv.Atoi(strings.TrimPrefix(job.Name, "t"))
		if err != nil || n >= len(tr.plans) {
			tr.t.Errorf("a job that no caller submitted: %s %q", job.ID, job.Name)
			return
		}
		of := tr.plans[n].Job
		of.ID, of.First = job.ID, firstDue(&job.Job)
		jobs, listed[n] = append(jobs, of), true
	})
	for n, p := range tr.plans {
		if p.ID != 0 && !listed[n] {
			tr.t.Errorf("lost: %s was answered with %s, and no list has it", p.Key, p.ID)
			jobs = append(jobs, p.Job)
		}
	}
	return jobs
}

func (tr *trial) records() (records []check.Record) {
	tr.t.Helper()
	all(tr.cluster, func(api *client.Client, cursor client.Cursor) (client.Page[carillon.Run], error) {
		return api.RunPage(tr.ctx, carillon.RunQuery{Limit: pageOfRecord}, cursor)
	}, func(run carillon.Run) { records = append(records, check.RecordOf(&run)) })
	return records
}

// all reads all pages of a list.
func all[T any](
	c *cluster,
	read func(api *client.Client, cursor client.Cursor) (client.Page[T], error),
	take func(item T),
) {
	c.t.Helper()
	for cursor := client.Cursor(""); ; {
		var page client.Page[T]
		c.insist(func(_ context.Context, api *client.Client) (err error) {
			page, err = read(api, cursor)
			return err
		})
		for _, item := range page.Items {
			take(item)
		}
		if cursor = page.Next; cursor == "" {
			return
		}
	}
}

// stable looks for the job of a submit that got no answer once more: it exists or not, but that does not
// change.
func (tr *trial) stable(c check.Command) {
	tr.t.Helper()
	var jobs []carillon.JobID
	// A page of a search can be empty though there are more: a store looks at so many jobs at a time.
	all(tr.cluster, func(api *client.Client, cursor client.Cursor) (client.Page[client.ListedJob], error) {
		return api.JobPage(tr.ctx, carillon.JobQuery{Name: c.Key, Limit: 10}, cursor)
	}, func(job client.ListedJob) { jobs = append(jobs, job.ID) })
	switch {
	case c.Job == 0 && len(jobs) > 0:
		tr.t.Errorf("submit %s got no answer, and left a job only later", c.Key)
	case c.Job != 0 && (len(jobs) != 1 || jobs[0] != c.Job):
		tr.t.Errorf("submit %s got no answer and left %s, and then %d jobs", c.Key, c.Job, len(jobs))
	}
}

// output reads logs of commands that have no children: a child's lines are not in the log of its parent.
func (tr *trial) output(h *check.History) (logs []check.Log) {
	tr.t.Helper()
	quiet := map[carillon.JobID]bool{}
	for _, job := range h.Jobs {
		n, _ := strconv.Atoi(strings.TrimPrefix(job.Key, "t"))
		manner := tr.plans[n].manner
		quiet[job.ID] = job.Commands && (manner == "" || manner == mannerStubborn)
	}
	for _, r := range h.Records {
		if len(logs) == sampledLogs {
			break
		}
		if !quiet[r.ID.Job] || r.State != carillon.StateSucceeded {
			continue
		}
		log := check.Log{Run: r.ID, Attempt: r.Attempt}
		tr.insist(func(ctx context.Context, api *client.Client) error {
			log.Lines = nil
			for line, err := range api.Logs(ctx, r.ID, client.LogQuery{Attempt: int(r.Attempt)}) {
				if err != nil {
					return err
				}
				log.Lines = append(log.Lines, line.Text)
			}
			return nil
		})
		logs = append(logs, log)
	}
	return logs
}
