package mysql

import (
	"fmt"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// jobColumns are the first columns that job reads. Those of the definition come last, so that the columns of
// an older definition can take their place.
const jobColumns = `j.id, j.namespace, j.rev, j.state, j.created, j.updated, j.due`

// job reads jobColumns and then version, name, type, owner, spec and payload.
func (r row) job() (carillon.Job, error) {
	job := carillon.Job{
		ID: carillon.JobID(r.int(0)), Namespace: r.name(1), Rev: int32(r.int(2)),
		State:   carillon.JobState(r.int(3)),
		Created: carillon.Time(r.int(4)), Updated: carillon.Time(r.int(5)), Version: int32(r.int(7)),
	}
	job.Name, job.Type, job.Owner = r.name(8), r.name(9), r.name(10)
	job.Payload = r.bytes(12)
	if err := sqlcommon.Decode(r.bytes(11), carillon.Time(r.int(6)), &job.Definition); err != nil {
		return job, fmt.Errorf("%s: %w", job.ID, err)
	}
	return job, nil
}
