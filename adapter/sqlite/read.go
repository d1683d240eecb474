package sqlite

import (
	"context"

	"github.com/carillon-run/carillon"
	"zombiezen.com/go/sqlite"
)

// By primary key. An older definition is read by the key of its table and joined to the row of its job.
const (
	jobsFrom = `SELECT ` + jobColumns +
		`, j.version, j.name, j.type, j.owner, j.spec, j.payload FROM job j WHERE j.id >= ? ORDER BY j.id`
	jobOlder = `SELECT ` + jobColumns + `, d.version, d.name, d.type, d.owner, d.spec, d.payload
FROM job j CROSS JOIN definition d ON d.job = j.id AND d.version = ?2 WHERE j.id = ?1`
)

// Jobs implements carillon.Store.
func (s *Store) Jobs(ctx context.Context, ids []carillon.JobVersion) ([]carillon.Job, error) {
	found := make([]carillon.Job, 0, len(ids))
	err := s.read(ctx, func(r *reader) error {
		var older []carillon.JobVersion
		err := r.latest(ids, func(id carillon.JobVersion, job carillon.Job) {
			if id.Version == 0 || id.Version == job.Version {
				found = append(found, job)
			} else {
				older = append(older, id)
			}
		})
		if err != nil {
			return err
		}
		for _, id := range older {
			job, exists, err := r.older(id)
			if err != nil {
				return err
			}
			if exists {
				found = append(found, job)
			}
		}
		return nil
	})
	return found, err
}

// nearby is how many rows latest steps over to reach the next wanted row: a new search for it would take
// longer.
const nearby = 8

// latest reads the newest versions of jobs. Jobs that are due one after the other mostly lie one after the
// other too.
func (r *reader) latest(
	ids []carillon.JobVersion, each func(id carillon.JobVersion, job carillon.Job),
) error {
	stmt, err := r.conn.Prepare(jobsFrom)
	if err != nil {
		return err
	}
	at, on := carillon.JobID(0), false // the row that the statement stands on, if any
	for _, id := range ids {
		for n := 0; !on || at != id.Job; n++ {
			if !on || at > id.Job || n == nearby {
				if err := stmt.Reset(); err != nil {
					return err
				}
				stmt.BindInt64(1, int64(id.Job))
				n = nearby
			}
			if on, err = stmt.Step(); err != nil {
				return err
			}
			if on {
				at = carillon.JobID(stmt.ColumnInt64(0))
			}
			if !on || at > id.Job {
				break
			}
		}
		if !on || at != id.Job {
			continue
		}
		job, err := r.job(stmt)
		if err != nil {
			return err
		}
		each(id, job)
	}
	return stmt.Reset()
}

func (r *reader) older(id carillon.JobVersion) (job carillon.Job, found bool, err error) {
	stmt, err := r.conn.Prepare(jobOlder)
	if err != nil {
		return job, false, err
	}
	stmt.BindInt64(1, int64(id.Job))
	stmt.BindInt64(2, int64(id.Version))
	if found, err = stmt.Step(); !found || err != nil {
		return job, false, err
	}
	if job, err = r.job(stmt); err != nil {
		return job, false, err
	}
	return job, true, stmt.Reset()
}

// A run can be in three places: unfinished, by primary key; in history, by history_job, where the last record
// of the run counts; or, once history has forgotten it, among the dead letters, by dead_run.
const (
	runByKey     = `SELECT ` + runColumns + ` FROM run WHERE due = ?1 AND job = ?2`
	historyByKey = `SELECT place, ` + endedColumns +
		` FROM history WHERE job = ?2 AND due = ?1 ORDER BY place DESC LIMIT 1`
	deadByKey = `SELECT place, ` + endedColumns + ` FROM dead WHERE job = ?2 AND due = ?1`
)

// Runs implements carillon.Store.
func (s *Store) Runs(ctx context.Context, ids []carillon.RunID, whole bool) ([]carillon.Run, error) {
	found := make([]carillon.Run, 0, len(ids))
	err := s.read(ctx, func(r *reader) error {
		for _, id := range ids {
			run, exists, err := r.run(id)
			if err != nil {
				return err
			}
			if !exists {
				continue
			}
			if whole {
				if run.Output, err = r.output(id); err != nil {
					return err
				}
			}
			found = append(found, run)
		}
		return nil
	})
	return found, err
}

func (r *reader) run(id carillon.RunID) (run carillon.Run, found bool, err error) {
	for _, query := range []string{runByKey, historyByKey, deadByKey} {
		err = r.rows(query, byKey(id), func(stmt *sqlite.Stmt) (bool, error) {
			found = true
			if query == runByKey {
				run = r.unfinished(stmt)
				return false, r.fillAbout(&run)
			}
			run, _ = r.ended(stmt, query == deadByKey)
			return false, nil
		})
		if found || err != nil {
			break
		}
	}
	return run, found, err
}

func byKey(id carillon.RunID) func(*sqlite.Stmt) {
	return func(stmt *sqlite.Stmt) {
		stmt.BindInt64(1, int64(id.Due))
		stmt.BindInt64(2, int64(id.Job))
	}
}

// aboutJob is by primary key.
const aboutJob = `SELECT name, type, owner FROM job WHERE id = ?`

// fillAbout reads the fields of the job that an unfinished run does not repeat.
func (r *reader) fillAbout(run *carillon.Run) error {
	run.About = &carillon.About{}
	return r.rows(aboutJob, func(stmt *sqlite.Stmt) { stmt.BindInt64(1, int64(run.ID.Job)) },
		func(stmt *sqlite.Stmt) (bool, error) {
			*run.About = carillon.About{Name: r.name(stmt, 0), Type: r.name(stmt, 1), Owner: r.name(stmt, 2)}
			return false, nil
		})
}

// By primary key.
const (
	resultByKey     = `SELECT value FROM result WHERE due = ? AND job = ?`
	checkpointByKey = `SELECT value FROM checkpoint WHERE due = ? AND job = ?`
	payloadByKey    = `SELECT value FROM run_payload WHERE due = ? AND job = ?`
)

// output reads the output of a run; nil if there is none.
func (r *reader) output(id carillon.RunID) (*carillon.Output, error) {
	var out carillon.Output
	for query, to := range map[string]*[]byte{
		resultByKey: &out.Result, checkpointByKey: &out.Checkpoint, payloadByKey: &out.Payload,
	} {
		err := r.rows(query, byKey(id), func(stmt *sqlite.Stmt) (bool, error) {
			*to = blob(stmt, 0)
			return false, nil
		})
		if err != nil {
			return nil, err
		}
	}
	if out.Result == nil && out.Checkpoint == nil && out.Payload == nil {
		return nil, nil
	}
	return &out, nil
}
