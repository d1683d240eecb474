package sqlite

import (
	"github.com/carillon-run/carillon"
)

// What a row has for a revision; each by primary key, but for dead letters by dead_run.
const (
	seeJob   = `SELECT rev FROM job WHERE id = ?`
	seeRun   = `SELECT rev FROM run WHERE due = ? AND job = ?`
	seeGuard = `SELECT rev FROM guard WHERE ns = ? AND key = ?`
	seeDead  = `SELECT 1 FROM dead WHERE job = ? AND due = ?`
)

// stands compares every row of a change and writes nothing.
func (w *writer) stands(c *carillon.Change) (bool, error) {
	if c.Job != nil {
		w.seeJob.int(1, int64(c.Job.ID))
		if rev, err := w.seeJob.one(); err != nil || rev != int64(c.Job.Rev) {
			return false, err
		}
	}
	for i := range c.Runs {
		run := &c.Runs[i]
		w.seeRun.int(1, int64(run.ID.Due))
		w.seeRun.int(2, int64(run.ID.Job))
		if rev, err := w.seeRun.one(); err != nil || rev != int64(run.Rev) {
			return false, err
		}
	}
	for i := range c.Guards {
		w.seeGuard.text(1, c.Guards[i].Namespace)
		w.seeGuard.text(2, c.Guards[i].Key)
		if rev, err := w.seeGuard.one(); err != nil || rev != int64(c.Guards[i].Rev) {
			return false, err
		}
	}
	for _, id := range c.Redriven {
		w.seeDead.int(1, int64(id.Job))
		w.seeDead.int(2, int64(id.Due))
		if found, err := w.seeDead.one(); err != nil || found == 0 {
			return false, err
		}
	}
	return true, nil
}
