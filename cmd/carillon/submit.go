package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/internal/wire"
)

func (a *app) submitCommand() *cobra.Command {
	var file, key string
	var wait, quiet, late bool
	cmd := &cobra.Command{
		Use:   "submit [flags] [--] PROGRAM [ARG...]",
		Short: "Submit a job: a command, an HTTP request or a handler",
		Long: `Submit a job and print its id.

What the job runs: a program with its arguments, or --shell, --http or --handler.
When it runs: --at, --after, --cron or --every. Without one of these flags it runs now.

A time without an offset is in the zone of --tz. Without --tz, it is in UTC for a job with --cron,
and in the zone of this machine for other jobs. If the clocks skip the time, the end of the gap is
taken. If they show it twice, the first one is taken.

With -f, the jobs come from a file with the fields of the API: one job, a list of jobs, JSON lines,
or several YAML documents. The server accepts all jobs of the file, or none if one is not valid.
More than 1000 jobs are sent 1000 at a time; if one is not valid, the error says how many were
accepted before it. The output of "carillon job -o yaml" can be submitted again, as a new job.

If the server does not answer, the command sends the job again for some seconds. The job has an
idempotency key, so the server takes it once. With --idempotency-key you choose the key: the same
command with the same key, given again within 24 hours, submits nothing more and prints the same
job. So a script can be run again after a crash.

With --unique, there is one job at a time with that key. If another job holds the key, --on-conflict
says what happens: the command prints that job (return), gives it the new definition if its run has
not begun (replace), or fails (refuse). With "--unique K --on-conflict replace --after 5s" only the
last of a burst of submits runs, when no other has come for 5 seconds.

With --wait, the log lines of the first run are shown as they come, and the exit code is 0 only if
the run succeeded. Standard error says what the command waits for: the due time, a worker, the next
attempt. Ctrl-C ends the command, not the run. With --wait and -q, standard output has only the id
of the job, and the exit code says how the run ended.`,
		Example: `  carillon submit --name hello --after 2s -- echo hello
  carillon submit --wait --shell 'df -h | grep /$'
  carillon submit --name report --cron "0 3 * * MON-FRI" --tz Europe/Berlin -- /opt/report --all
  carillon submit --name remind --at "2026-11-18 09:00" --tz Europe/Berlin -- /opt/remind
  carillon submit --http https://example.com/hook --payload '{"n":1}' --every 30s --max-runs 10
  carillon submit --handler --type email.send --payload @mail.json
  carillon submit --unique invoice-42 --unique-for 10m -- /opt/invoice 42
  carillon submit -f jobs.yaml`,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().SetInterspersed(false) // flags after the program belong to the program
	cmd.Flags().StringVarP(
		&file, "file", "f", "", "submit the jobs in this `file`, JSON or YAML; - means standard input",
	)
	cmd.Flags().StringVar(
		&key, "idempotency-key", "", "submit once, however often the command is given with this `key`",
	)
	cmd.Flags().BoolVar(&wait, "wait", false, "show the log, and wait until the run has ended")
	cmd.Flags().BoolVarP(
		&quiet, "quiet", "q", false, "print only the id of the job, even with --wait",
	)
	def := a.definitionFlags(cmd, false)
	lateFlag(cmd, &late)
	_ = cmd.MarkFlagFilename("file", "json", "yaml", "yml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		given := def.given(args)
		if err := a.resolveTimes(given, nil); err != nil {
			return err
		}
		defs, err := a.definitions(file, given)
		if err != nil {
			return err
		}
		if err := errors.Join(a.refuseLate(given, late), a.refuseLateIn(file, defs, late)); err != nil {
			return err
		}
		if cmd.ArgsLenAtDash() < 0 {
			a.noteFlagsBehind(cmd, args)
		}
		if wait && len(defs) != 1 {
			return usage("--wait is for one job, not for %d", len(defs))
		}
		if cmd.Flags().Changed("idempotency-key") {
			if err := checkKey(key, defs); err != nil {
				return err
			}
		}
		c, err := a.connect()
		if err != nil {
			return err
		}
		jobs, err := a.submit(cmd.Context(), c, submission{file: file, defs: defs, key: key})
		if wait && err == nil {
			return a.submitAndWait(cmd.Context(), c, jobs[0], quiet)
		}
		if len(jobs) > 0 { // even if the server refused the rest
			err = errors.Join(a.submitted(jobs, len(defs) != 1 || defs[0].listed, quiet), err)
		}
		return err
	}
	return cmd
}

// definitions are the jobs to send: the definitions in the file, or the one from the flags.
func (a *app) definitions(file string, given doc) ([]written, error) {
	if file != "" {
		if len(given) > 0 {
			return nil, usage(
				"-f takes the whole job from the file: leave out the program and the flags that define a job",
			)
		}
		return a.readDefinitions(file)
	}
	if err := checkTarget(given); err != nil {
		return nil, err
	}
	body, err := json.Marshal(given)
	return []written{{body: body}}, err
}

// checkTarget checks here what the server would check as well, to word the error in terms of the command
// line; the server would speak of JSON.
func checkTarget(given doc) error {
	target, _ := given["target"].(doc)
	command, _ := target["command"].(doc)
	request, _ := target["http"].(doc)
	var found []string
	for _, t := range []struct {
		name string
		is   bool
	}{
		{"a program", command["argv"] != nil},
		{"--shell", command["shell"] != nil},
		{"--http", request["url"] != nil},
		{"--handler", target["handler"] != nil},
	} {
		if t.is {
			found = append(found, t.name)
		}
	}
	switch {
	case len(found) == 0:
		return usage("nothing to run: give a program after --, or --shell, --http, --handler or -f")
	case len(found) == 2:
		return usage("give %s or %s, not both", found[0], found[1])
	case len(found) > 2:
		return usage("give only one of %s", strings.Join(found, ", "))
	case command != nil && found[0] != "a program" && found[0] != "--shell":
		return usage("--env, --dir and --fatal-exit-codes are only for commands, not for %s", found[0])
	case request != nil && found[0] != "--http":
		return usage("--method, --header and --body are only for --http")
	}
	return nil
}

// submitted prints the jobs that the server accepted.
func (a *app) submitted(jobs []carillon.Job, many, quiet bool) error {
	if quiet {
		for _, job := range jobs {
			fmt.Fprintln(a.out, job.ID)
		}
		return nil
	}
	if many {
		return a.show(wire.List[carillon.Job]{Items: jobs}, func() {
			a.jobTable(fresh(jobs))
			if n := existing(jobs); n > 0 {
				fmt.Fprintf(a.err, "carillon: %d of %s existed already\n", n, count(len(jobs), "job"))
			}
		})
	}
	return a.show(jobs[0], func() { a.submittedBlock(a.out, &jobs[0]) })
}

// existing is how many jobs a submit found by their unique keys.
func existing(jobs []carillon.Job) (n int) {
	for i := range jobs {
		if jobs[i].Existing {
			n++
		}
	}
	return n
}

// fresh are submitted jobs as a list, without their runs.
func fresh(jobs []carillon.Job) []client.ListedJob {
	list := make([]client.ListedJob, len(jobs))
	for i := range jobs {
		list[i].Job = jobs[i]
	}
	return list
}

func (a *app) submittedBlock(w io.Writer, job *carillon.Job) {
	t := a.tableTo(w)
	if job.Existing {
		t.fact("Exists already", job.ID.String())
		t.fact("Version", strconv.Itoa(int(job.Version)))
	} else {
		t.fact("Submitted", job.ID.String())
	}
	t.fact("Name", job.Name)
	t.fact("Schedule", a.scheduleWords(&job.Schedule))
	t.fact("See", "carillon job "+job.ID.String())
	t.end()
}
