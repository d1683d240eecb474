package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/client"
)

// answerTime is how long a caller waits for an answer.
const answerTime = 5 * time.Second

// pooled keeps connections to the nodes, as callers under load do.
var pooled = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: mostInFlight}}

// api is a client of any node.
func (tr *trial) api() (*client.Client, error) {
	c, _, err := tr.anyNode()
	return c, err
}

// anyNode is a client of any node, and its address.
func (tr *trial) anyNode() (c *client.Client, url string, err error) {
	urls, token := tr.where()
	if len(urls) == 0 {
		return nil, "", errors.New("no node has an address")
	}
	url = urls[rand.IntN(len(urls))]
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.clients[url] == nil {
		c, err := client.New(client.Config{
			URL: url, Token: token, HTTP: pooled, Timeout: answerTime, Tries: 1,
		})
		if err != nil {
			return nil, "", err
		}
		tr.clients[url] = c
	}
	return tr.clients[url], url, nil
}

// answerOf says what a caller knows after an error. A problem in what the caller asked for means that nothing
// happened; after any other error the command can have happened.
func answerOf(err error) check.Answer {
	var problem *client.Problem
	switch {
	case err == nil:
		return check.AnswerOK
	case errors.As(err, &problem) && problem.Status/100 == 4:
		return check.AnswerRefused
	}
	return check.AnswerUnknown
}

// overloaded says that a request was refused because too much waits for the store.
func overloaded(err error) bool {
	var problem *client.Problem
	return errors.As(err, &problem) && problem.Status == http.StatusTooManyRequests
}

// submitAll submits a batch in one request, and sends the commands that follow. first is the number of the
// first plan.
func (tr *trial) submitAll(first int, batch []plan) {
	defs := make([]carillon.Definition, len(batch))
	for i := range batch {
		defs[i] = tr.define(&batch[i])
	}
	invoked := now()
	var jobs []carillon.Job
	api, err := tr.api()
	if err == nil {
		jobs, err = api.SubmitMany(tr.ctx, defs)
	}
	answered, answer := now(), answerOf(err)
	if answer == check.AnswerRefused && !overloaded(err) { // while the store hangs, submits are refused
		tr.t.Errorf("a submit was refused: %v", err)
	}
	tr.mu.Lock()
	for i := range batch {
		c := check.Command{
			Verb: check.VerbSubmit, Answer: answer, Key: batch[i].Key, Invoked: invoked, Answered: answered,
		}
		if answer == check.AnswerOK {
			c.Job = jobs[i].ID
			batch[i].ID, batch[i].First = jobs[i].ID, firstDue(&jobs[i])
			tr.plans[first+i] = batch[i]
		}
		tr.commands = append(tr.commands, c)
	}
	tr.mu.Unlock()
	for _, p := range batch {
		if p.ID != 0 && p.then != 0 {
			tr.follows.Go(func() { tr.follow(p) })
		}
	}
}

func firstDue(job *carillon.Job) carillon.Time {
	if job.Schedule.Recurring() {
		return job.Schedule.StartsAt
	}
	return job.Schedule.At
}

// follow sends the commands that belong to an accepted job.
func (tr *trial) follow(p plan) {
	last(tr.ctx, p.at)
	switch p.then {
	case check.VerbRedrive:
		// It is refused until the run is a dead letter.
		run := carillon.RunID{Job: p.ID, Due: p.First}
		for range 5 {
			if tr.send(check.VerbRedrive, p.ID, run, p.work) != check.AnswerRefused {
				return
			}
			last(tr.ctx, 2*time.Second)
		}
	case check.VerbPause:
		tr.mu.Lock()
		tr.paused[p.ID] = true
		tr.mu.Unlock()
		tr.send(check.VerbPause, p.ID, carillon.RunID{}, p.work)
		last(tr.ctx, p.lasts)
		tr.send(check.VerbResume, p.ID, carillon.RunID{}, p.work)
	default:
		tr.send(p.then, p.ID, carillon.RunID{}, p.work)
	}
}

// send sends one command and logs it.
func (tr *trial) send(verb check.Verb, job carillon.JobID, run carillon.RunID, work Work) check.Answer {
	tr.flight <- struct{}{}
	defer func() { <-tr.flight }()
	c := check.Command{Verb: verb, Job: job, Invoked: now()}
	api, err := tr.api()
	if err == nil {
		c.Run, err = perform(tr.ctx, api, &c, run, work)
	}
	c.Answered, c.Answer = now(), answerOf(err)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.commands = append(tr.commands, c)
	if c.Answer == check.AnswerOK && !c.Run.IsZero() {
		tr.added = append(tr.added, c.Run)
	}
	return c.Answer
}

// perform asks a node, and returns the run that the answer names.
func perform(
	ctx context.Context, api *client.Client, c *check.Command, run carillon.RunID, work Work,
) (carillon.RunID, error) {
	var err error
	var added carillon.Run
	switch c.Verb {
	case check.VerbCancel:
		_, err = api.Cancel(ctx, c.Job, false)
	case check.VerbPause:
		_, err = api.Pause(ctx, c.Job)
	case check.VerbResume:
		_, err = api.Resume(ctx, c.Job)
	case check.VerbEdit:
		work.Version++
		_, err = api.Edit(ctx, c.Job, client.Changes{"payload": work}, 0)
	case check.VerbRunNow:
		added, err = api.RunNow(ctx, c.Job, nil)
	case check.VerbRedrive:
		added, err = api.RetryDeadLetter(ctx, run, nil)
	}
	return added.ID, err
}

// resumeAll resumes the jobs that are still paused: a pause that got no answer can have happened after the
// resume.
func (tr *trial) resumeAll() {
	for id := range tr.paused {
		for {
			var job client.JobDetail
			tr.insist(func(ctx context.Context, api *client.Client) (err error) {
				job, err = api.Job(ctx, id)
				return err
			})
			if job.State != carillon.JobPaused || tr.ctx.Err() != nil {
				break
			}
			tr.send(check.VerbResume, id, carillon.RunID{}, Work{})
		}
	}
}
