package ledger

import (
	"context"
	"sync"

	"github.com/carillon-run/carillon"
)

// maxDefinitions bounds how many definitions are remembered: enough for the runs that are due about now, few
// enough that payloads cannot fill the memory.
const maxDefinitions = 100_000

// Definitions remembers the definitions that were recently submitted or read. A definition never changes for
// its version, but a database that fails over can lose the latest version and give its number to another one.
// So Definitions forgets everything when the store does not answer: no definition from before a failover is
// used after it.
type Definitions struct {
	store carillon.Store

	mu    sync.Mutex
	known map[carillon.JobVersion]*carillon.Job
	order []carillon.JobVersion // oldest first; the entries before next have left
	next  int
	bytes int
}

// maxDefinitionBytes bounds the remembered definitions in bytes.
const maxDefinitionBytes = 80 << 20

// weight is about how many bytes a definition takes.
func weight(job *carillon.Job) int {
	const itself = 500
	return itself + job.Weight()
}

func newDefinitions(store carillon.Store) *Definitions {
	return &Definitions{store: store, known: map[carillon.JobVersion]*carillon.Job{}}
}

// Get returns the jobs of the given versions, in their order; nil where there is none.
func (d *Definitions) Get(ctx context.Context, ids []carillon.JobVersion) ([]*carillon.Job, error) {
	jobs, missing := d.lookup(ids)
	if len(missing) == 0 {
		return jobs, nil
	}
	read, err := d.store.Jobs(ctx, missing)
	if err != nil {
		if ctx.Err() == nil { // the caller did not give up: the store was away
			d.ForgetAll()
		}
		return nil, err
	}
	found := make(map[carillon.JobVersion]*carillon.Job, len(read))
	for i := range read {
		found[carillon.JobVersion{Job: read[i].ID, Version: read[i].Version}] = &read[i]
	}
	for i, job := range jobs {
		if job == nil {
			jobs[i] = found[ids[i]]
		}
	}
	for _, job := range found {
		if neededAgain(job) {
			job.Schedule.Ready()
			d.Remember(job)
		}
	}
	return jobs, nil
}

func (d *Definitions) lookup(ids []carillon.JobVersion) (
	jobs []*carillon.Job, missing []carillon.JobVersion,
) {
	jobs = make([]*carillon.Job, len(ids))
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, id := range ids {
		switch jobs[i] = d.known[id]; {
		case jobs[i] == nil:
			missing = append(missing, id)
		case !neededAgain(jobs[i]): // its run is claimed now, and most need no second attempt
			d.forget(id)
		}
	}
	return jobs, missing
}

// neededAgain says that a definition is needed more than once: by the next run of a recurring job, or by each
// node of a workflow that ends.
func neededAgain(job *carillon.Job) bool {
	return job.Schedule.Recurring() || job.Target.Workflow != nil
}

// Remember keeps a definition until newer ones push it out.
func (d *Definitions) Remember(jobs ...*carillon.Job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, job := range jobs {
		id := carillon.JobVersion{Job: job.ID, Version: job.Version}
		if d.known[id] != nil {
			continue
		}
		for len(d.order)-d.next >= maxDefinitions || d.bytes > maxDefinitionBytes {
			d.forgetOldest()
		}
		d.known[id] = job
		d.bytes += weight(job)
		d.order = append(d.order, id)
	}
}

// ForgetAll forgets all definitions: the store was away, and may have lost versions that it had confirmed.
func (d *Definitions) ForgetAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known, d.order, d.next, d.bytes = map[carillon.JobVersion]*carillon.Job{}, nil, 0, 0
}

func (d *Definitions) forget(id carillon.JobVersion) {
	if job := d.known[id]; job != nil {
		d.bytes -= weight(job)
		delete(d.known, id)
	}
}

func (d *Definitions) forgetOldest() {
	d.forget(d.order[d.next])
	d.next++
	if d.next > maxDefinitions {
		d.order = append([]carillon.JobVersion(nil), d.order[d.next:]...)
		d.next = 0
	}
}
