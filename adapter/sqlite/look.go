package sqlite

import (
	"github.com/carillon-run/carillon"
)

// The revision of a row, 0 if there is none; each by primary key, but for dead letters by dead_run.
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
		if rev, err := w.runRev(c.Runs[i].ID); err != nil || rev != int64(c.Runs[i].Rev) {
			return false, err
		}
	}
	for i := range c.Guards {
		if rev, err := w.guardRev(&c.Guards[i]); err != nil || rev != int64(c.Guards[i].Rev) {
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

func (w *writer) runRev(id carillon.RunID) (int64, error) {
	w.seeRun.int(1, int64(id.Due))
	w.seeRun.int(2, int64(id.Job))
	return w.seeRun.one()
}

func (w *writer) guardRev(g *carillon.Guard) (int64, error) {
	w.seeGuard.text(1, g.Namespace)
	w.seeGuard.text(2, g.Key)
	return w.seeGuard.one()
}
