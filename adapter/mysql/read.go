package mysql

import (
	"context"
	"slices"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// By primary key. An older definition is read by the key of its table and joined to the row of its job.
const (
	jobsLatest = `SELECT ` + jobColumns + `, j.version, j.name, j.type, j.owner, j.spec, j.payload
FROM job j FORCE INDEX (PRIMARY) WHERE j.id IN (?)`
	jobsOlder = `SELECT ` + jobColumns + `, d.version, d.name, d.type, d.owner, d.spec, d.payload
FROM definition d FORCE INDEX (PRIMARY) STRAIGHT_JOIN job j FORCE INDEX (PRIMARY) ON j.id = d.job
  WHERE (d.job, d.version) IN (?)`
)

// Jobs implements carillon.Store.
func (s *Store) Jobs(ctx context.Context, ids []carillon.JobVersion) ([]carillon.Job, error) {
	found := make([]carillon.Job, 0, len(ids))
	err := s.use(ctx, func(l *conn) error {
		for some := range slices.Chunk(ids, most) {
			var err error
			if found, err = l.jobs(some, found); err != nil {
				return err
			}
		}
		return nil
	})
	return found, tried("read jobs", err)
}

func (l *conn) jobs(ids []carillon.JobVersion, found []carillon.Job) ([]carillon.Job, error) {
	versions := make(map[carillon.JobID][]int32, len(ids))
	for _, id := range ids {
		versions[id.Job] = append(versions[id.Job], id.Version)
	}
	var older []carillon.JobVersion
	err := l.query(func(r row) error {
		job, err := r.job()
		for _, version := range versions[job.ID] {
			if version == 0 || version == job.Version {
				found = append(found, job)
			} else {
				older = append(older, carillon.JobVersion{Job: job.ID, Version: version})
			}
		}
		return err
	}, jobsLatest, list(ids, func(b []byte, id carillon.JobVersion) []byte { return appendValue(b, id.Job) }))
	if err != nil || len(older) == 0 {
		return found, err
	}
	err = l.query(func(r row) error {
		job, err := r.job()
		found = append(found, job)
		return err
	}, jobsOlder,
		list(older, func(b []byte, id carillon.JobVersion) []byte {
			return appendSQL(b, `(?,?)`, id.Job, id.Version)
		}))
	return found, err
}

// A run can be in three places: unfinished, by primary key; in history, by history_job, where the last record
// of the run counts; or, once history has forgotten it, among the dead letters, by primary key.
const (
	runsByKey    = `SELECT ` + runColumns + ` FROM run FORCE INDEX (PRIMARY) WHERE (due, job) IN (?)`
	historyByKey = `SELECT place, ` + endedColumns +
		` FROM history FORCE INDEX (history_job) WHERE (job, due) IN (?)`
	deadByKey = `SELECT place, ` + endedColumns + ` FROM dead FORCE INDEX (PRIMARY) WHERE (job, due) IN (?)`
)

// Runs implements carillon.Store.
func (s *Store) Runs(ctx context.Context, ids []carillon.RunID, whole bool) ([]carillon.Run, error) {
	found := make([]carillon.Run, 0, len(ids))
	err := s.view(ctx, func(l *conn) error {
		found = found[:0]
		for some := range slices.Chunk(ids, most) {
			runs, err := l.runs(some)
			if err != nil {
				return err
			}
			if whole {
				if err := l.fillOutput(runs); err != nil {
					return err
				}
			}
			found = append(found, runs...)
		}
		return nil
	})
	return found, tried("read runs", err)
}

func (l *conn) runs(ids []carillon.RunID) ([]carillon.Run, error) {
	at := make(map[carillon.RunID]int64, len(ids)) // the place where each was found
	var found []carillon.Run
	err := l.query(func(r row) error {
		run := r.unfinished()
		at[run.ID] = carillon.Unended
		found = append(found, run)
		return nil
	}, runsByKey, list(ids, dueJob))
	if err == nil {
		err = l.fillAbout(found)
	}
	for _, query := range []string{historyByKey, deadByKey} {
		missing := slices.DeleteFunc(slices.Clone(ids), func(id carillon.RunID) bool { return at[id] != 0 })
		if err != nil || len(missing) == 0 {
			break
		}
		err = l.query(func(r row) error {
			run, place := r.ended(query == deadByKey)
			switch was := at[run.ID]; {
			case was == 0:
				found = append(found, run)
			case was < place:
				found[slices.IndexFunc(found, func(f carillon.Run) bool { return f.ID == run.ID })] = run
			default:
				return nil
			}
			at[run.ID] = place
			return nil
		}, query, list(missing, jobDue))
	}
	return found, err
}

// aboutJobs is by primary key.
const aboutJobs = `SELECT id, name, type, owner FROM job FORCE INDEX (PRIMARY) WHERE id IN (?)`

// fillAbout reads the fields of the jobs that unfinished runs do not repeat.
func (l *conn) fillAbout(runs []carillon.Run) error {
	return sqlcommon.FillAbout(runs, func(ids []carillon.JobID, about sqlcommon.AboutJobs) error {
		for some := range slices.Chunk(ids, most) {
			err := l.query(func(r row) error {
				about[carillon.JobID(r.int(0))] = carillon.About{
					Name: r.name(1), Type: r.name(2), Owner: r.name(3),
				}
				return nil
			}, aboutJobs, ints(some))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// By primary key.
const (
	resultsByKey     = `SELECT due, job, value FROM result FORCE INDEX (PRIMARY) WHERE (due, job) IN (?)`
	checkpointsByKey = `SELECT due, job, value FROM checkpoint FORCE INDEX (PRIMARY) WHERE (due, job) IN (?)`
	payloadsByKey    = `SELECT due, job, value FROM run_payload FORCE INDEX (PRIMARY) WHERE (due, job) IN (?)`
)

// fillOutput reads the output of runs.
func (l *conn) fillOutput(runs []carillon.Run) error {
	if len(runs) == 0 {
		return nil
	}
	outputs := map[carillon.RunID]*carillon.Output{}
	keys := list(runs, func(b []byte, run carillon.Run) []byte { return dueJob(b, run.ID) })
	for query, part := range map[string]func(*carillon.Output) *[]byte{
		resultsByKey:     func(o *carillon.Output) *[]byte { return &o.Result },
		checkpointsByKey: func(o *carillon.Output) *[]byte { return &o.Checkpoint },
		payloadsByKey:    func(o *carillon.Output) *[]byte { return &o.Payload },
	} {
		err := l.query(func(r row) error {
			id := carillon.RunID{Due: carillon.Time(r.int(0)), Job: carillon.JobID(r.int(1))}
			if outputs[id] == nil {
				outputs[id] = &carillon.Output{}
			}
			*part(outputs[id]) = r.bytes(2)
			return nil
		}, query, keys)
		if err != nil {
			return err
		}
	}
	for i := range runs {
		runs[i].Output = outputs[runs[i].ID]
	}
	return nil
}
