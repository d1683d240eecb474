package ledger

import (
	"context"

	"github.com/carillon-run/carillon"
)

// PauseFailing pauses a job if its last runs have failed as often as its pause_after says, and says whether
// it did. It decides again on fresh rows if another writer was quicker, so a job that is resumed meanwhile is
// not paused for what happened before.
func (l *Ledger) PauseFailing(ctx context.Context, namespace string, id carillon.JobID) (bool, error) {
	for range maxTries {
		w, err := l.Snapshot(ctx, namespace, id)
		if err != nil || w.Job.PauseAfter == 0 || w.Job.State != carillon.JobActive {
			return false, err
		}
		ended, err := l.lastEnded(ctx, &w.Job)
		if err != nil {
			return false, err
		}
		change, pause := w.PauseFailing(ended, l.cfg.Clock.Now())
		if !pause {
			return false, nil
		}
		lost, err := l.Commit(ctx, []carillon.Change{change})
		if err != nil || len(lost) == 0 {
			return err == nil, err
		}
	}
	return false, errTooBusy
}

// lastEnded reads the last runs of a job that succeeded or failed, the latest due first: as many as decide
// whether it is paused.
func (l *Ledger) lastEnded(ctx context.Context, job *carillon.Job) (ended []carillon.Run, err error) {
	q := carillon.RunQuery{
		Namespace: job.Namespace, Job: job.ID, Limit: int(job.PauseAfter),
		States: []carillon.State{carillon.StateSucceeded, carillon.StateFailed},
	}
	for range maxTries { // a page can be short where many runs were skipped
		page, err := l.cfg.Store.FindRuns(ctx, q)
		if err != nil {
			return nil, err
		}
		ended = append(ended, page.Runs...)
		if q.After = page.Next; page.Next == "" || len(ended) >= int(job.PauseAfter) {
			break
		}
	}
	return ended, nil
}
