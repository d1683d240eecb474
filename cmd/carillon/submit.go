package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

func (a *app) submitCommand() *cobra.Command {
	var file string
	var wait, quiet bool
	cmd := &cobra.Command{
		Use:   "submit [flags] [--] PROGRAM [ARG...]",
		Short: "Submit a job: a command, an HTTP request or a handler; now, later or again and again",
		Long: `Submits a job and prints its id. What it runs is a program with its arguments, --shell, --http or --handler.
When it runs is --at, --after, --cron or --every; without one of them it runs now.

With -f the job comes from a file in JSON or YAML with the fields of the API, or several as a list: all of them are
accepted, or none if one is not valid.

With --wait the log lines of the (first) run are shown as they come, and the exit code is 0 only if it succeeded.`,
		Example: `  carillon submit --name hello --after 2s -- echo hello
  carillon submit --wait --shell 'df -h | grep /$'
  carillon submit --name report --cron "0 3 * * MON-FRI" --tz Europe/Berlin -- /opt/report --all
  carillon submit --http https://example.com/hook --payload '{"n":1}' --every 30s --max-runs 10
  carillon submit --handler --type email.send --payload @mail.json
  carillon submit -f jobs.yaml`,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().SetInterspersed(false) // what follows the program are its own flags
	cmd.Flags().StringVarP(&file, "file", "f", "", "submit what is in this `file`, JSON or YAML; - is standard input")
	cmd.Flags().BoolVar(&wait, "wait", false, "show the log and wait until the run has ended")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print the id and nothing else")
	def := a.definitionFlags(cmd, false)
	_ = cmd.MarkFlagFilename("file", "json", "yaml", "yml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		defs, err := a.submission(file, def.given(args))
		if err != nil {
			return err
		}
		if wait && len(defs) != 1 {
			return usage("--wait is for one job, not for %d", len(defs))
		}
		c, err := a.connect()
		if err != nil {
			return err
		}
		jobs, err := submit(cmd.Context(), c, defs)
		if err != nil {
			return err
		}
		if wait {
			return a.submitAndWait(cmd.Context(), c, jobs[0])
		}
		return a.submitted(jobs, file != "" && len(jobs) != 1, quiet)
	}
	return cmd
}

// submission is what to send: definitions from the file, or the one from the flags.
func (a *app) submission(file string, given doc) ([][]byte, error) {
	if file != "" {
		if len(given) > 0 {
			return nil, usage("-f takes the whole job from the file: no other flag says what a job is, and no program follows")
		}
		return a.readDefinitions(file)
	}
	if err := checkTarget(given); err != nil {
		return nil, err
	}
	body, err := json.Marshal(given)
	return [][]byte{body}, err
}

// checkTarget says it in words of the command line; the server would speak of JSON.
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
	case len(found) > 1:
		return usage("only one of %s", strings.Join(found, ", "))
	case command != nil && found[0] != "a program" && found[0] != "--shell":
		return usage("--env, --dir and --fatal-exit-codes are for commands, not for %s", found[0])
	case request != nil && found[0] != "--http":
		return usage("--method, --header and --body are for --http")
	}
	return nil
}

func submit(ctx context.Context, c *client.Client, defs [][]byte) ([]carillon.Job, error) {
	if len(defs) != 1 {
		return c.SubmitManyJSON(ctx, defs)
	}
	job, err := c.SubmitJSON(ctx, defs[0])
	return []carillon.Job{job}, err
}

// readDefinitions reads one definition, a list of them, or several YAML documents of either.
func (a *app) readDefinitions(file string) ([][]byte, error) {
	text, err := a.readFile(file)
	if err != nil {
		return nil, usage("-f: %v", err)
	}
	documents := [][]byte{bytes.TrimSpace(text)}
	if !json.Valid(text) {
		if documents, err = yamlDocuments(text); err != nil {
			return nil, usage("-f: %s: %s", file, yaml.FormatError(err, false, false))
		}
	}
	var defs [][]byte
	for _, document := range documents {
		var list []json.RawMessage
		if json.Unmarshal(document, &list) != nil {
			list = []json.RawMessage{document}
		}
		for _, def := range list {
			defs = append(defs, def)
		}
	}
	if len(defs) == 0 {
		return nil, usage("-f: %s holds no job", file)
	}
	return defs, nil
}

func (a *app) readFile(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(a.in)
	}
	return os.ReadFile(file)
}

// yamlDocuments turns each document into JSON, keeping the order of fields.
func yamlDocuments(text []byte) ([][]byte, error) {
	var documents [][]byte
	decoder := yaml.NewDecoder(bytes.NewReader(text), yaml.UseOrderedMap())
	for {
		var value any
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		if value == nil { // nothing between two separators
			continue
		}
		document, err := yaml.MarshalWithOptions(value, yaml.JSON())
		if err != nil {
			return nil, err
		}
		if document = bytes.TrimSpace(document); !json.Valid(document) {
			return nil, fmt.Errorf("it holds a value that JSON does not have, such as .inf")
		}
		documents = append(documents, document)
	}
}

// submitted tells what was accepted.
func (a *app) submitted(jobs []carillon.Job, many, quiet bool) error {
	if quiet {
		for _, job := range jobs {
			fmt.Fprintln(a.out, job.ID)
		}
		return nil
	}
	if many {
		return a.show(items[carillon.Job]{jobs}, func() { a.jobTable(jobs) })
	}
	return a.show(jobs[0], func() { a.submittedBlock(a.out, &jobs[0]) })
}

func (a *app) submittedBlock(w io.Writer, job *carillon.Job) {
	t := a.tableTo(w)
	t.fact("Submitted", job.ID.String())
	t.fact("Name", job.Name)
	t.fact("Schedule", a.scheduleWords(&job.Schedule))
	t.fact("See", "carillon job "+job.ID.String())
	t.end()
}
