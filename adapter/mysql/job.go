package mysql

import (
	"maps"
	"slices"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// The job row, by primary key. The column due is written once: see its comment in the schema. An edited row
// has been locked and compared before.
const (
	insertJobs = `INSERT INTO job`

	updateJob = `UPDATE job SET rev = rev + 1, state = ?, updated = ? WHERE id = ?`

	moveJob = `REPLACE INTO definition (job, version, namespace, name, type, owner, spec, payload)
SELECT id, version, namespace, name, type, owner, spec, payload FROM job WHERE id = ?`

	defineJob = `UPDATE job SET rev = rev + 1, version = ?, state = ?, updated = ?, name = ?, type = ?,
  owner = ?, spec = ?, payload = ?
WHERE id = ?`

	unlabelJob = `DELETE job_label FROM job_label FORCE INDEX (job_label_job) WHERE job = ?`
)

func (p *batch) putJobs() error {
	var labels []label
	rows := make([]newJob, len(p.newJobs))
	for i, job := range p.newJobs {
		row := newJob{Job: job}
		if !job.Schedule.Recurring() {
			row.due = job.Schedule.At
		}
		spec, err := sqlcommon.Encode(&job.Definition, row.due)
		if err != nil {
			return err
		}
		row.spec = string(spec)
		rows[i] = row
		labels = appendLabels(labels, job.Namespace, job)
		p.remember(job.ID, storedJob{version: job.Version, namespace: job.Namespace, due: row.due})
	}
	insert(&p.statements, insertJobs, jobRow, rows, ``)
	for _, job := range p.edited {
		was := p.jobs[job.ID]
		if was.version == job.Version {
			p.statements.add(updateJob, job.State, job.Updated, job.ID)
			continue
		}
		spec, err := sqlcommon.Encode(&job.Definition, was.due)
		if err != nil {
			return err
		}
		p.statements.add(moveJob, job.ID)
		p.statements.add(
			defineJob, job.Version, job.State, job.Updated, job.Name, job.Type, job.Owner, string(spec),
			[]byte(job.Payload), job.ID,
		)
		p.statements.add(unlabelJob, job.ID)
		labels = appendLabels(labels, was.namespace, job)
		was.version = job.Version
		p.remember(job.ID, was)
	}
	p.putLabels(labels)
	return nil
}

// remember keeps what a later group of the batch may need to know.
func (p *batch) remember(id carillon.JobID, job storedJob) {
	if p.jobs != nil {
		p.jobs[id] = job
	}
}

// insertLabels is by primary key. Only jobs that have labels pay for them.
const insertLabels = "INSERT IGNORE INTO job_label (namespace, `key`, value, job) VALUES "

type label struct {
	namespace, key, value string
	job                   carillon.JobID
}

func appendLabels(to []label, namespace string, job *carillon.Job) []label {
	for _, key := range slices.Sorted(maps.Keys(job.Labels)) {
		to = append(to, label{namespace, key, job.Labels[key], job.ID})
	}
	return to
}

func (p *batch) putLabels(labels []label) {
	many(&p.statements, insertLabels, labels, func(b []byte, l label) []byte {
		return appendSQL(b, `(?,?,?,?)`, l.namespace, l.key, l.value, l.job)
	}, ``, 0)
}
