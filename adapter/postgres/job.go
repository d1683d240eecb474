package postgres

import (
	"fmt"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// The job row, by primary key. The due time is written only once, see the column.
var (
	insertJob = forRows("insert_job", `id int8 key, created int8, updated int8, due int8, version int4,
  state int2, namespace text, name text, type text, owner text, spec bytea, payload bytea`,
		`INSERT INTO carillon.job (id, created, updated, due, rev, version, state, namespace, name, type,
  owner, spec, payload)
SELECT id, created, updated, due, 1, version, state, namespace, name, type, owner, spec, payload FROM ROWS x`)

	// keepDefinition moves a definition that is about to be replaced to the older definitions.
	keepDefinition = forRows("keep_definition", `id int8 key, rev int4, version int4`,
		`INSERT INTO carillon.definition (job, version, namespace, name, type, owner, spec, payload)
SELECT j.id, j.version, j.namespace, j.name, j.type, j.owner, j.spec, j.payload
FROM ROWS x JOIN carillon.job j ON j.id = ANY(ARRAY[x.id]) AND j.rev = x.rev AND j.version <> x.version
ON CONFLICT (job, version) DO UPDATE SET namespace = excluded.namespace, name = excluded.name,
  type = excluded.type, owner = excluded.owner, spec = excluded.spec, payload = excluded.payload`)

	// dropLabels and addLabel are for jobs whose definition is about to be replaced. By job_label_job and the
	// primary key.
	dropLabels = forRows("drop_labels", `id int8 key, rev int4, version int4`,
		`DELETE FROM carillon.job_label l USING ROWS x JOIN carillon.job j ON j.id = ANY(ARRAY[x.id]) AND j.rev = x.rev
  AND j.version <> x.version
WHERE l.job = ANY(ARRAY[j.id])`)

	addLabel = forRows("add_label", `id int8 key, rev int4, version int4, key text, value text`,
		`INSERT INTO carillon.job_label (job, namespace, key, value)
SELECT j.id, j.namespace, x.key, x.value FROM ROWS x
  JOIN carillon.job j ON j.id = ANY(ARRAY[x.id]) AND j.rev = x.rev AND j.version <> x.version
ON CONFLICT DO NOTHING`)

	// updateJob writes the definition only if its version is another one.
	updateJob = forRows("update_job", `id int8 key, rev int4, version int4, state int2, updated int8,
  name text, type text, owner text, spec bytea, payload bytea`,
		`WITH hit AS (UPDATE carillon.job j SET rev = j.rev + 1, state = x.state, updated = x.updated,
  version = x.version, name    = CASE WHEN j.version = x.version THEN j.name ELSE x.name END,
  type    = CASE WHEN j.version = x.version THEN j.type ELSE x.type END,
  owner   = CASE WHEN j.version = x.version THEN j.owner ELSE x.owner END,
  spec    = CASE WHEN j.version = x.version THEN j.spec ELSE x.spec END,
  payload = CASE WHEN j.version = x.version THEN j.payload ELSE x.payload END
  FROM ROWS x WHERE j.id = ANY(ARRAY[x.id]) AND j.rev = x.rev RETURNING 1)
SELECT 1 / (count(*) = COUNT)::int FROM hit`)

	insertLabel = forRows("insert_label", `job int8 key, namespace text, key text, value text`,
		`INSERT INTO carillon.job_label (job, namespace, key, value) SELECT job, namespace, key, value
  FROM ROWS x ON CONFLICT DO NOTHING`)

	// seeJob returns the revisions of the jobs that exist.
	seeJob = forRows(
		"see_job", `id int8 key`,
		`SELECT j.id, j.rev FROM ROWS x JOIN carillon.job j ON j.id = ANY(ARRAY[x.id])`,
	)
)

func (r *rows) insertJob(job *carillon.Job) error {
	var due carillon.Time
	if !job.Schedule.Recurring() {
		due = job.Schedule.At
	}
	spec, err := sqlcommon.Encode(&job.Definition, due)
	if err != nil {
		return err
	}
	r.begin()
	r.int(int64(job.ID))
	r.int(int64(job.Created))
	r.int(int64(job.Updated))
	if job.Schedule.Recurring() {
		r.null()
	} else {
		r.int(int64(due))
	}
	r.int(int64(job.Version))
	r.int(int64(job.State))
	r.text(job.Namespace)
	r.definition(&job.Definition, spec)
	return nil
}

func (r *rows) definition(d *carillon.Definition, spec []byte) {
	r.text(d.Name)
	r.text(d.Type)
	r.text(d.Owner)
	r.bytes(spec)
	r.bytes(d.Payload)
}

// unknownDue makes encode write the schedule: the due time in the row is not known without reading it.
const unknownDue carillon.Time = -1

func (r *rows) updateJob(job *carillon.Job) error {
	spec, err := sqlcommon.Encode(&job.Definition, unknownDue)
	if err != nil {
		return err
	}
	r.jobVersion(job)
	r.int(int64(job.State))
	r.int(int64(job.Updated))
	r.definition(&job.Definition, spec)
	return nil
}

func (r *rows) jobVersion(job *carillon.Job) {
	r.begin()
	r.int(int64(job.ID))
	r.int(int64(job.Rev))
	r.int(int64(job.Version))
}

// addLabels writes the labels of a job that is edited, insertLabels those of a new one.
func (r *rows) addLabels(job *carillon.Job) {
	for key, value := range job.Labels {
		r.jobVersion(job)
		r.text(key)
		r.text(value)
	}
}

func (r *rows) insertLabels(job *carillon.Job) {
	for key, value := range job.Labels {
		r.begin()
		r.int(int64(job.ID))
		r.text(job.Namespace)
		r.text(key)
		r.text(value)
	}
}

// jobColumns and definitionColumns are the columns that job reads. The columns of the definition are last and
// by themselves, so that an older definition can take their place.
const (
	jobColumns        = `j.id, j.namespace, j.rev, j.state, j.created, j.updated, j.due`
	definitionColumns = `j.version, j.name, j.type, j.owner, j.spec, j.payload`
)

// job reads a job; due is the due time of a one-off.
func (r *row) job() (job carillon.Job, due carillon.Time, err error) {
	job = carillon.Job{
		ID: carillon.JobID(r.int()), Namespace: r.name(), Rev: int32(r.int()),
		State: carillon.JobState(r.int()), Created: carillon.Time(r.int()), Updated: carillon.Time(r.int()),
	}
	due = carillon.Time(r.int())
	job.Version, job.Name, job.Type, job.Owner = int32(r.int()), r.name(), r.name(), r.name()
	spec := r.next()
	job.Payload = r.bytes()
	if err := sqlcommon.Decode(spec, due, &job.Definition); err != nil {
		return job, due, fmt.Errorf("%s: %w", job.ID, err)
	}
	return job, due, nil
}
