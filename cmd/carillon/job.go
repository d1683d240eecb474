package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

func (a *app) jobCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "job JOB",
		Short: "Show a job: what it runs, when, and how it went last",
		Long: `Show everything about a job. JOB is an id or a name. A name means the active or paused job of that
name, or else the newest job of that name.`,
		Example: `  carillon job job_0f8j2v5r3c000
  carillon job report
  carillon job report -o yaml`,
		Args:              one("job, its id or name"),
		ValidArgsFunction: a.completeJobs(),
		RunE: a.reached(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := a.findJob(ctx, c, args[0])
			if err != nil {
				return err
			}
			job, err := c.Job(ctx, id)
			if err != nil {
				return err
			}
			if !a.forPeople() {
				return a.show(job, nil)
			}
			next, err := c.Next(ctx, id, 3)
			if err != nil {
				return err
			}
			waits, err := a.jobWaits(ctx, c, &job)
			if err != nil {
				return err
			}
			a.jobDetail(&job, next.Items, waits)
			return nil
		}),
	}
}

// jobWaits is why a due run of the job has not begun; "" if no run is due. The job itself does not say it.
func (a *app) jobWaits(ctx context.Context, c *client.Client, job *client.JobDetail) (string, error) {
	if job.NextRun == nil ||
		job.NextRun.Wake > carillon.TimeOf(a.now()) && job.NextRun.ID.Due > carillon.TimeOf(a.now()) {
		return "", nil
	}
	run, err := c.Run(ctx, job.NextRun.ID)
	if errors.Is(err, carillon.ErrNotFound) ||
		err == nil && (run.WaitsFor == nil || run.WaitsFor.Kind == client.WaitTime) {
		return "", nil // it has begun meanwhile, or Next shows the time of its next attempt
	}
	if err != nil {
		return "", err
	}
	return run.WaitsFor.Text, nil
}

func (a *app) jobDetail(job *client.JobDetail, next []client.DueTime, waits string) {
	t := a.tableTo(a.out)
	defer t.end()
	t.fact("Job", job.ID.String())
	t.fact("Name", job.Name)
	t.fact("State", job.State.String())
	t.fact("Reason", job.Reason)
	t.fact("Type", job.Type)
	t.fact("Owner", job.Owner)
	t.fact("Labels", pairsText(job.Labels))
	t.fact("Schedule", a.scheduleWords(&job.Schedule))
	t.facts("Next", a.nextTimes(job, next))
	t.fact("Waits", waits)
	t.facts("Last run", a.runSummary(job.LastRun))
	t.facts("Target", targetLines(&job.Target))
	t.fact("Payload", payloadText(job.Payload))
	t.fact("Queue", fmt.Sprintf("%s, priority %d", job.Queue, job.Priority))
	t.fact("Fair by", fairText(&job.Definition))
	t.fact("Limits", limitsText(job.Limits))
	t.fact("Unique", uniqueText(job.Unique))
	t.fact("Needs", pairsText(job.Needs))
	t.fact("Timeout", timeoutText(job.Timeout))
	t.fact("Retry", retryText(&job.Retry))
	t.facts("Retry rules", retryRuleLines(job.Retry.Rules))
	t.fact("Pause after", pauseText(job.PauseAfter))
	t.fact("Overlap", overlapText(job.Overlap))
	t.fact("Misfire", misfireText(&job.Misfire))
	t.fact("On failure", hookText(job.OnFailure))
	t.fact("On success", hookText(job.OnSuccess))
	t.fact("Late", hookText(job.Late))
	t.fact(
		"Kept",
		fmt.Sprintf(
			"runs %s, logs %s, dead letters %s", job.Retention.Runs, job.Retention.Logs,
			job.Retention.DeadLetters,
		),
	)
	t.fact("Version", strconv.Itoa(int(job.Version)))
	t.fact("Created", a.when(job.Created))
	if job.Updated != job.Created {
		t.fact("Updated", a.when(job.Updated))
	}
}

// nextTimes are the next attempt of a run that has begun, if it waits for one, and the coming due times in
// the job's own zone. If the job has neither, it is when its run is or was due.
func (a *app) nextTimes(job *client.JobDetail, next []client.DueTime) (times []string) {
	if run := job.LastRun; run != nil && run.State == carillon.StateWaiting &&
		job.State == carillon.JobActive {
		times = append(times, fmt.Sprintf("%s, attempt %d of %s", a.when(run.Wake), run.Attempt+1, run.ID))
	}
	for _, due := range next {
		times = append(times, a.whenIn(due.Due, a.zoneOf(&job.Schedule)))
	}
	if run := job.NextRun; len(times) == 0 && run != nil {
		times = append(times, a.when(run.ID.Due))
	}
	if len(times) == 0 {
		return []string{"-"}
	}
	return times
}

func (a *app) runSummary(run *carillon.Run) []string {
	if run == nil {
		return []string{"-"}
	}
	line := fmt.Sprintf("%s, due %s", a.stateWord(run), a.when(run.ID.Due))
	if run.Started != 0 && run.Ended != 0 {
		line += ", took " + took(run.Started, run.Ended)
	}
	lines := []string{line, run.ID.String()}
	if run.Reason != "" {
		lines = append(lines, shorten(run.Reason, 200))
	}
	return lines
}

func targetLines(target *carillon.Target) []string {
	switch {
	case target.Command != nil:
		return commandLines(target.Command)
	case target.HTTP != nil:
		lines := []string{target.HTTP.Method + " " + target.HTTP.URL}
		for _, name := range slices.Sorted(maps.Keys(target.HTTP.Headers)) {
			lines = append(lines, "header "+name+": "+target.HTTP.Headers[name])
		}
		if target.HTTP.Body != "" {
			lines = append(lines, "body "+shorten(target.HTTP.Body, 500))
		}
		if target.HTTP.Sign != nil {
			lines = append(lines, "signed")
		}
		return lines
	case target.Handler != nil:
		return []string{"the handler of the type"}
	case target.Workflow != nil:
		return workflowLines(target.Workflow)
	case target.Wait != nil:
		return []string{waitText(target.Wait)}
	}
	return []string{"-"}
}

// workflowLines lists the first nodes of a workflow.
func workflowLines(w *carillon.Workflow) []string {
	const most = 20
	lines := []string{"a workflow of " + count(len(w.Nodes), "node")}
	if w.Deadline != 0 {
		lines[0] += ", deadline " + w.Deadline.String()
	}
	for i := range w.Nodes[:min(len(w.Nodes), most)] {
		node := &w.Nodes[i]
		line := node.Name
		for k, edge := range node.After {
			if k == 0 {
				line += " after "
			} else {
				line += ", "
			}
			if line += edge.Node; edge.On != carillon.OnSuccess {
				line += " (" + string(edge.On) + ")"
			}
		}
		lines = append(lines, shorten(line, 200))
	}
	if more := len(w.Nodes) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

func waitText(wait *carillon.Wait) string {
	switch {
	case wait.Signal == "":
		return "waits for " + wait.For.String()
	case wait.Timeout == 0:
		return "waits for the signal " + wait.Signal
	}
	return "waits for the signal " + wait.Signal + ", " + wait.Timeout.String() + " at most"
}

func commandLines(command *carillon.Command) []string {
	line := quoteAll(command.Argv)
	if command.Shell != "" {
		line = "/bin/sh: " + command.Shell
	}
	lines := []string{line}
	if command.Dir != "" {
		lines = append(lines, "in "+command.Dir)
	}
	if len(command.Env) > 0 {
		lines = append(lines, "env "+pairsText(command.Env))
	}
	if len(command.FatalExitCodes) > 0 {
		lines = append(lines, "fatal exit codes "+strings.Trim(fmt.Sprint(command.FatalExitCodes), "[]"))
	}
	return lines
}

// quoteAll quotes arguments for a shell, so that the reader sees where one ends and the next begins.
func quoteAll(argv []string) string {
	quoted := make([]string, len(argv))
	for i, arg := range argv {
		quoted[i] = arg
		if arg == "" || strings.ContainsAny(arg, " \t\n\"'\\$`*?[]{}()<>|&;#~!") {
			quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

func pairsText(pairs map[string]string) string {
	list := make([]string, 0, len(pairs))
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		list = append(list, key+"="+pairs[key])
	}
	return strings.Join(list, ", ")
}

// payloadText keeps a large payload from pushing everything else off the screen.
func payloadText(payload json.RawMessage) string {
	const most = 1000
	var b bytes.Buffer
	if len(payload) == 0 || string(payload) == "null" || json.Compact(&b, payload) != nil {
		return ""
	}
	if b.Len() > most {
		return fmt.Sprintf("%s (%d bytes; -o json shows all)", shorten(b.String(), most), len(payload))
	}
	return b.String()
}

func timeoutText(timeout carillon.Duration) string {
	if timeout == 0 {
		return "none"
	}
	return timeout.String() + " for each attempt"
}

func retryText(r *carillon.Retry) string {
	if r.MaxAttempts == 1 && r.Rules != nil {
		return "never, except by rules"
	}
	if r.MaxAttempts == 1 {
		return "never"
	}
	text := fmt.Sprintf("up to %d attempts, %s apart", r.MaxAttempts, r.Delay)
	if r.Backoff == carillon.BackoffExponential {
		text = fmt.Sprintf(
			"up to %d attempts, %s apart, then twice as long each time up to %s", r.MaxAttempts, r.Delay,
			r.MaxDelay,
		)
	}
	if r.Jitter > 0 {
		text += fmt.Sprintf(", plus up to %.0f%%", r.Jitter*100)
	}
	return text + fmt.Sprintf("; given up after %d crashed workers", r.MaxCrashes)
}

// pauseText is empty for a job that is never paused because of its failures.
func pauseText(after int32) string {
	switch after {
	case 0:
		return ""
	case 1:
		return "a failed run"
	}
	return fmt.Sprintf("%d failed runs in a row", after)
}

// fairText is empty for a job without a key.
func fairText(d *carillon.Definition) string {
	if d.FairBy == "" {
		return ""
	}
	return fmt.Sprintf("%s, weight %d", d.FairBy, d.FairWeight)
}

// uniqueText is empty for a job without a unique key.
func uniqueText(u *carillon.Unique) string {
	if u == nil {
		return ""
	}
	held := "until the job has ended"
	if u.For != 0 {
		held = "for " + u.For.String()
	}
	return fmt.Sprintf("%s, %s; on conflict %s", u.Key, held, u.OnConflict)
}

func overlapText(o carillon.Overlap) string {
	meaning := map[carillon.Overlap]string{
		carillon.OverlapSkip:     "a run that is due while another is unfinished is skipped",
		carillon.OverlapQueue:    "one run waits while another is unfinished",
		carillon.OverlapQueueAll: "runs wait for each other, one after the other",
		carillon.OverlapReplace:  "a run that is due stops the unfinished one and takes its place",
		carillon.OverlapAllow:    "runs may go on at the same time",
	}[o]
	return strings.TrimSuffix(string(o)+": "+meaning, ": ")
}

func misfireText(m *carillon.Misfire) string {
	switch m.Policy {
	case carillon.MisfireSkip:
		return "skip: due times missed in a downtime are not made up for"
	case carillon.MisfireOnce:
		return "once: one run makes up for all due times missed in a downtime"
	case carillon.MisfireAll:
		return fmt.Sprintf(
			"all: each due time missed in a downtime runs, the latest %d of the last %s", m.Max, m.Window,
		)
	}
	return string(m.Policy)
}
