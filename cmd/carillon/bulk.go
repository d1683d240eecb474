package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/internal/wire"
)

// maxBatchBytes leaves room for the JSON around the jobs of one batch.
const maxBatchBytes = wire.MaxLargeBody - 1<<20

// submission is the jobs of one command.
type submission struct {
	file string
	defs []written
	key  string // idempotency key; empty: the command makes one
}

// maxKey is how many characters the server takes as an idempotency key.
const maxKey = 255

// checkKey checks the key of the user for all requests of the command, before the first one is sent.
func checkKey(key string, defs []written) error {
	const flag = "--idempotency-key"
	if _, err := carillon.NewOnce(flag, key); err != nil {
		return err
	}
	if len(nextBatch(defs)) == len(defs) {
		return nil
	}
	if room := maxKey - len(batchKey("", len(defs)-1)); len(key) > room {
		return usage(
			"%s: it has %d characters: want at most %d, because %d jobs need several requests, "+
				"and all but the first add a number to the key", flag, len(key), room, len(defs),
		)
	}
	return nil
}

// batchKey is the key of the request whose first job has the index from. The first request has the key as it
// is, however many follow: so a file that grows beyond one request keeps it.
func batchKey(key string, from int) string {
	if from == 0 {
		return key
	}
	return fmt.Sprintf("%s/%d", key, from)
}

// refusedAll says that the server has performed nothing of the request that failed with err.
func refusedAll(err error) bool {
	var problem *client.Problem
	var unknown *client.UnknownOutcome
	return !errors.As(err, &unknown) &&
		(errors.As(err, &problem) && problem.Status < 500 || noConnection(err))
}

// advice says how to give the command again if it is not known which jobs were submitted, or if some were
// and the others can be submitted as they are. Empty: there is nothing to say.
func advice(key string, before int, err error) string {
	var problem *client.Problem
	wrong := errors.As(err, &problem) && problem.Status != http.StatusTooManyRequests
	if refusedAll(err) && (before == 0 || wrong) {
		return ""
	}
	return "Give the same command again with --idempotency-key " + key +
		": it submits what is missing, and nothing twice."
}

// submit sends all jobs, in as many batches as they need. With an error it returns the jobs that were
// accepted before it.
func (a *app) submit(
	ctx context.Context, c *client.Client, s submission,
) (jobs []carillon.Job, err error) {
	file, defs, key := s.file, s.defs, cmp.Or(s.key, client.NewIdempotencyKey())
	if len(defs) == 1 {
		job, err := c.SubmitJSON(client.WithIdempotencyKey(ctx, key), defs[0].body)
		if err != nil {
			return nil, withAdvice(inFile(file, defs, err), advice(key, 0, err))
		}
		return []carillon.Job{job}, nil
	}
	for len(jobs) < len(defs) {
		batch := nextBatch(defs[len(jobs):])
		bodies := make([][]byte, len(batch))
		for i := range batch {
			bodies[i] = batch[i].body
		}
		accepted, err := c.SubmitManyJSON(
			client.WithIdempotencyKey(ctx, batchKey(key, len(jobs))), bodies,
		)
		if err != nil {
			a.clearProgress()
			return jobs, withAdvice(
				inFile(file, batch, err), acceptedBefore(defs, len(jobs), len(batch), err),
				advice(key, len(jobs), err),
			)
		}
		a.connected = true
		jobs = append(jobs, accepted...)
		if a.errTerminal && len(defs) > wire.MaxBatch {
			fmt.Fprintf(a.rawErr, "\r%d of %d jobs submitted", len(jobs), len(defs))
		}
	}
	a.clearProgress()
	return jobs, nil
}

// withAdvice is the error with lines to show below it.
func withAdvice(err error, lines ...string) error {
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	if len(lines) == 0 {
		return err
	}
	return &noted{err, lines}
}

func (a *app) clearProgress() {
	if a.errTerminal {
		fmt.Fprint(a.rawErr, "\r\x1b[K")
	}
}

func nextBatch(defs []written) []written {
	size := 0
	for i := range defs {
		if size += len(defs[i].body) + 1; i == wire.MaxBatch || i > 0 && size > maxBatchBytes {
			return defs[:i]
		}
	}
	return defs
}

// inFile adds to the error where in the file the refused job is.
func inFile(file string, batch []written, err error) error {
	var problem *client.Problem
	if file == "" || !errors.As(err, &problem) || problem.Field == "" {
		return err
	}
	at, field := 0, problem.Field
	if len(batch) > 1 {
		number, path, _ := strings.Cut(strings.TrimPrefix(field, "jobs["), "]")
		i, bad := strconv.Atoi(number)
		if bad != nil || i >= len(batch) {
			return err // the error is about the whole batch
		}
		at, field = i, strings.TrimPrefix(path, ".")
	}
	refused := *problem
	refused.Field = field
	return fmt.Errorf("%s: %w", inLine(file, &batch[at], at, field), &refused)
}

// inLine is the place of a field in a file: its line or, where that is not known, the number of the job.
func inLine(file string, def *written, number int, field string) string {
	if line := def.lineAt(field); line > 0 {
		return fmt.Sprintf("%s, line %d", fileName(file), line)
	}
	return fmt.Sprintf("%s, job %d", fileName(file), number+1)
}

func fileName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// acceptedBefore says which jobs of a file were submitted when one batch failed.
func acceptedBefore(defs []written, before, batch int, err error) string {
	text := "Nothing of it was submitted."
	if before > 0 {
		text = fmt.Sprintf(
			"The first %s submitted, %s; those after were not.", were(before), upTo(defs[:before]),
		)
	}
	if refusedAll(err) {
		return text
	}
	last := before + batch
	text = fmt.Sprintf(
		"Whether jobs %d to %d (%s) were submitted is not known.", before+1, last, upTo(defs[before:last]),
	)
	if before > 0 {
		text = fmt.Sprintf("The first %s submitted, %s. ", were(before), upTo(defs[:before])) + text
	}
	if last < len(defs) {
		text += " Those after were not."
	}
	return text
}

func were(n int) string {
	if n == 1 {
		return "job was"
	}
	return fmt.Sprintf("%d jobs were", n)
}

// upTo names the last line of a part of a file. For YAML with anchors the lines are not known.
func upTo(defs []written) string {
	last := defs[len(defs)-1]
	if last.line == 0 {
		return "by their order in the file"
	}
	return fmt.Sprintf("up to the one at line %d", last.line)
}
