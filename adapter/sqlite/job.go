package sqlite

import (
	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// The job row, by primary key. The column due is written once: see its comment in the schema.
const (
	insertJob = `INSERT INTO job (id, namespace, rev, version, state, created, updated, due, name, type,
  owner, spec, payload)
VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`

	// updateJob writes the columns outside the definition, if the definition still has the same version.
	updateJob = `UPDATE job SET rev = rev + 1, state = ?4, updated = ?5 WHERE id = ?1 AND rev = ?2
  AND version = ?3`

	// readJob runs if updateJob found no row: the change is lost, or it brings a new version of the
	// definition.
	readJob = `SELECT namespace, due, spec FROM job WHERE id = ? AND rev = ?`

	moveJob = `INSERT OR REPLACE INTO definition (job, version, namespace, name, type, owner, spec, payload)
SELECT id, version, namespace, name, type, owner, spec, payload FROM job WHERE id = ?`

	defineJob = `UPDATE job SET rev = rev + 1, version = ?2, state = ?3, updated = ?4, name = ?5, type = ?6,
  owner = ?7, spec = ?8, payload = ?9
WHERE id = ?1`
)

func (w *writer) putJob(job *carillon.Job) (bool, error) {
	if job.Rev == 0 {
		return w.submit(job)
	}
	w.updateJob.int(1, int64(job.ID))
	w.updateJob.int(2, int64(job.Rev))
	w.updateJob.int(3, int64(job.Version))
	w.updateJob.int(4, int64(job.State))
	w.updateJob.int(5, int64(job.Updated))
	if hit, err := w.updateJob.hits(); hit || err != nil {
		return hit, err
	}
	return w.define(job)
}

func (w *writer) submit(job *carillon.Job) (bool, error) {
	var due carillon.Time
	stmt := &w.insertJob
	if job.Schedule.Recurring() {
		stmt.null(7)
	} else {
		due = job.Schedule.At
		stmt.int(7, int64(due))
	}
	spec, err := sqlcommon.Encode(&job.Definition, due)
	if err != nil {
		return false, err
	}
	stmt.int(1, int64(job.ID))
	stmt.text(2, job.Namespace)
	stmt.int(3, int64(job.Version))
	stmt.int(4, int64(job.State))
	stmt.int(5, int64(job.Created))
	stmt.int(6, int64(job.Updated))
	stmt.text(8, job.Name)
	stmt.text(9, job.Type)
	stmt.text(10, job.Owner)
	stmt.bytes(11, spec)
	stmt.bytes(12, job.Payload)
	if hit, err := stmt.hits(); !hit || err != nil {
		return hit, err
	}
	return true, w.label(job.Namespace, job.ID, job.Labels)
}

// define gives the job a definition of another version and keeps the previous one.
func (w *writer) define(job *carillon.Job) (bool, error) {
	w.readJob.int(1, int64(job.ID))
	w.readJob.int(2, int64(job.Rev))
	found, err := w.readJob.stmt.Step()
	if err != nil {
		return false, err
	}
	namespace, due, old := w.readJob.stmt.ColumnText(0), carillon.Time(w.readJob.stmt.ColumnInt64(
		1,
	)), blob(w.readJob.stmt, 2)
	if err := w.readJob.stmt.Reset(); !found || err != nil {
		return false, err
	}
	var was carillon.Definition
	if err := sqlcommon.Decode(old, due, &was); err != nil {
		return false, err
	}
	spec, err := sqlcommon.Encode(&job.Definition, due)
	if err != nil {
		return false, err
	}
	w.moveJob.int(1, int64(job.ID))
	if err := w.moveJob.exec(); err != nil {
		return false, err
	}
	stmt := &w.defineJob
	stmt.int(1, int64(job.ID))
	stmt.int(2, int64(job.Version))
	stmt.int(3, int64(job.State))
	stmt.int(4, int64(job.Updated))
	stmt.text(5, job.Name)
	stmt.text(6, job.Type)
	stmt.text(7, job.Owner)
	stmt.bytes(8, spec)
	stmt.bytes(9, job.Payload)
	if err := stmt.exec(); err != nil {
		return false, err
	}
	if err := w.unlabel(namespace, job.ID, was.Labels); err != nil {
		return false, err
	}
	return true, w.label(namespace, job.ID, job.Labels)
}

// Labels, by primary key. Only jobs that have labels pay for them.
const (
	insertLabel = `INSERT OR IGNORE INTO job_label (namespace, key, value, job) VALUES (?, ?, ?, ?)`
	deleteLabel = `DELETE FROM job_label WHERE namespace = ? AND key = ? AND value = ? AND job = ?`
)

func (w *writer) label(namespace string, id carillon.JobID, labels map[string]string) error {
	for key, value := range labels {
		w.insertLabel.text(1, namespace)
		w.insertLabel.text(2, key)
		w.insertLabel.text(3, value)
		w.insertLabel.int(4, int64(id))
		if err := w.insertLabel.exec(); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) unlabel(namespace string, id carillon.JobID, labels map[string]string) error {
	for key, value := range labels {
		w.deleteLabel.text(1, namespace)
		w.deleteLabel.text(2, key)
		w.deleteLabel.text(3, value)
		w.deleteLabel.int(4, int64(id))
		if err := w.deleteLabel.exec(); err != nil {
			return err
		}
	}
	return nil
}
