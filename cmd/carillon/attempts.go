package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

// maxAttemptsShown is how many attempts of a run are shown: the last ones, which tell why it is where it is.
const maxAttemptsShown = 20

// attempts reads the last attempts of a run. There are none if a table would repeat what the run itself says:
// the first attempt goes on, or has succeeded.
func (a *app) attempts(
	ctx context.Context, c *client.Client, run *carillon.Run,
) (last []carillon.Attempt, err error) {
	first := run.State.Held() || run.State == carillon.StateSucceeded
	if a.format == "json" || a.format == "yaml" || run.Attempt == 0 || run.Attempt == 1 && first {
		return nil, nil
	}
	for attempt, err := range c.Attempts(ctx, run.ID, 0) {
		if errors.Is(err, carillon.ErrNotFound) { // the server is older than records of attempts
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if last = append(last, attempt); len(last) > maxAttemptsShown {
			last = last[1:]
		}
	}
	return last, nil
}

func (a *app) attemptTable(attempts []carillon.Attempt) {
	if len(attempts) == 0 {
		return
	}
	fmt.Fprintln(a.out)
	t := a.table("ATTEMPT", "CLAIMED", "TOOK", "WORKER", "OUTCOME", "REASON")
	defer t.end()
	for _, at := range attempts {
		outcome, length := "-", "-"
		if at.Outcome != 0 {
			outcome = at.Outcome.String()
		}
		if at.Started != 0 && at.Ended != 0 {
			length = took(at.Started, at.Ended)
		}
		t.row(strconv.Itoa(int(at.Number)), a.stamp(at.Claimed), length, at.Worker, outcome, at.Reason)
	}
}
