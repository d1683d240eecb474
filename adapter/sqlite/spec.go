package sqlite

import (
	"fmt"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
	"zombiezen.com/go/sqlite"
)

// jobColumns are the first columns that job reads. Those of the definition come last, so that the columns of
// an older definition can take their place.
const jobColumns = `j.id, j.namespace, j.rev, j.state, j.created, j.updated, j.due`

// job reads jobColumns and then version, name, type, owner, spec and payload.
func (r *reader) job(stmt *sqlite.Stmt) (carillon.Job, error) {
	job := carillon.Job{
		ID: carillon.JobID(stmt.ColumnInt64(0)), Namespace: r.name(stmt, 1), Rev: stmt.ColumnInt32(2),
		State: carillon.JobState(stmt.ColumnInt32(3)), Created: carillon.Time(stmt.ColumnInt64(4)),
		Updated: carillon.Time(stmt.ColumnInt64(5)), Version: stmt.ColumnInt32(7),
	}
	job.Name, job.Type, job.Owner = r.name(stmt, 8), r.name(stmt, 9), r.name(stmt, 10)
	job.Payload = blob(stmt, 12)
	if err := sqlcommon.Decode(
		blob(stmt, 11), carillon.Time(stmt.ColumnInt64(6)), &job.Definition,
	); err != nil {
		return job, fmt.Errorf("%s: %w", job.ID, err)
	}
	return job, nil
}
