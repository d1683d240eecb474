package dispatch

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

// noticeWait is how long a pull of later attempts waits for the log store. A notice is a convenience.
const noticeWait = time.Second

// logAttempts begins the log of each attempt after the first: its number, where it runs, and how the attempt
// before it ended. Only the dispatcher can say how it ended: a claim clears the reason, and a worker that
// died has said nothing.
func (d *Dispatcher) logAttempts(ctx context.Context, before []carillon.Candidate, tasks []protocol.Task) {
	var chunks []carillon.Chunk
	for i := range tasks {
		run := &tasks[i].Run
		if run.Attempt <= 1 {
			continue
		}
		for len(before) > 0 && before[0].Run.ID != run.ID { // both are in the same order
			before = before[1:]
		}
		if len(before) > 0 {
			chunks = append(chunks, attemptChunk(&before[0].Run, run, tasks[i].Job.Retention.Logs.Std()))
		}
	}
	if len(chunks) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, noticeWait)
	defer cancel()
	if err := d.cfg.Logs.Append(ctx, chunks); err != nil {
		d.cfg.Logger.Error("keep output", "runs", len(chunks), "error", err)
	}
}

func attemptChunk(was, run *carillon.Run, keep time.Duration) carillon.Chunk {
	text := fmt.Sprintf("--- attempt %d, on %s", run.Attempt, run.Worker)
	if was.Reason != "" {
		text += fmt.Sprintf(
			"; attempt %d ended: %s", was.Attempt, strings.Join(strings.Fields(was.Reason), " "),
		)
	}
	return carillon.Chunk{
		Namespace: run.Namespace, Run: run.ID, Attempt: run.Attempt, Offset: -1, Keep: keep,
		Lines: []carillon.Line{{At: run.Claimed, Stream: "carillon", Text: text}},
	}
}
