package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/carillon-run/carillon"
)

// submission is a submit that can find out that it is not the first: it has an idempotency key, or jobs of it
// have unique keys. Like idempotency keys, unique keys are not looked at before the first try.
type submission struct {
	namespace string
	defs      []carillon.Definition
	ids       []carillon.JobID // of the jobs; nil: each try makes new ones
	key       *keyed           // nil: none
	unique    bool             // some definitions have unique keys
	// found is what the look after a try that lost found, by the unique key.
	found map[string]*foundKey
	turns []uniqueKey // that it has: see Ledger.wait
}

// foundKey is a unique key that was used before.
type foundKey struct {
	guard  carillon.Guard
	held   bool                  // by another job; false: the key is free, and is taken with the guard's Rev
	holder *carillon.JobSnapshot // that job; nil: it is no longer stored
}

func withUnique(defs []carillon.Definition) bool {
	for i := range defs {
		if defs[i].Unique != nil {
			return true
		}
	}
	return false
}

// perform tries to submit until the jobs are stored, or until it knows why they cannot be.
func (l *Ledger) perform(ctx context.Context, s *submission) ([]carillon.Job, error) {
	defer l.giveTurns(s)
	unexplained := 0 // tries that lost, though nothing that they expected has changed
	for try := range maxTries {
		d, err := l.draft(s, l.cfg.Clock.Now())
		if err != nil {
			return nil, err
		}
		lost, err := l.commitDraft(ctx, d)
		if err != nil {
			return nil, err
		}
		if lost == 0 {
			return d.answer(), nil
		}
		if err := l.wait(ctx, s, try+1); err != nil {
			return nil, err
		}
		expected := s.key.rev()
		if err := l.look(ctx, s.key); err != nil {
			return nil, err
		}
		moved, err := l.lookAtKeys(ctx, s)
		if err != nil {
			return nil, err
		}
		if !moved && !d.replaces && expected == 0 && s.key.rev() == 0 {
			unexplained++
		}
		if unexplained > 1 { // the first time an expired guard may just have been removed
			return nil, sameIDs(lost, len(s.defs))
		}
	}
	return nil, errTooBusy
}

func (l *Ledger) commitDraft(ctx context.Context, d *draft) (lost int, err error) {
	switch {
	case len(d.changes) == 0: // every job was there before
		return 0, nil
	case d.replaces:
		// The commit goes on when the caller gives up, as that of any submit.
		gone, err := l.Commit(context.WithoutCancel(ctx), d.changes)
		return len(gone), err
	}
	return l.commitSubmits(ctx, d.changes, d.now)
}

// lookAtKeys reads the guards of the unique keys, and the jobs that hold them, in this order. A job that was
// seen to have ended does not begin to hold the key again, so the key can be taken with the guard's Rev: if
// another submit takes it first, the Rev is another one.
func (l *Ledger) lookAtKeys(ctx context.Context, s *submission) (moved bool, err error) {
	names := map[string]string{} // by the key of the guard
	var keys []string
	for i := range s.defs {
		if key := s.defs[i].UniqueKey(); key != "" && names[key] == "" {
			names[key] = s.defs[i].Unique.Key
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return false, nil
	}
	guards, err := l.cfg.Store.Guards(ctx, carillon.GuardQuery{Namespace: s.namespace, Keys: keys})
	if err != nil {
		return false, err
	}
	before := s.found
	s.found = make(map[string]*foundKey, len(guards))
	moved = len(guards) != len(before)
	for i := range guards {
		found := &foundKey{guard: guards[i]}
		if err := l.lookAtHolder(ctx, found); err != nil {
			return false, err
		}
		name := names[guards[i].Key]
		moved = moved || before[name] == nil || before[name].guard.Rev != guards[i].Rev
		s.found[name] = found
	}
	return moved, nil
}

func (l *Ledger) lookAtHolder(ctx context.Context, found *foundKey) error {
	id, held := found.guard.KeyHolder(l.cfg.Clock.Now())
	if !held {
		return nil
	}
	snapshot, err := l.Snapshot(ctx, found.guard.Namespace, id)
	switch {
	case errors.Is(err, carillon.ErrNotFound):
		found.held = found.guard.Expires != 0 // else the job has ended, or it would be stored
		return nil
	case err != nil:
		return err
	}
	if found.held = snapshot.HoldsKey(&found.guard); !found.held {
		return nil
	}
	if snapshot.Ran, err = l.ran(ctx, &snapshot.Job); err != nil {
		return err
	}
	found.holder = &snapshot
	return nil
}

// draft is one try: what it writes, and what the caller gets if that wins.
type draft struct {
	now      carillon.Time
	changes  []carillon.Change
	replaces bool // some changes do not insert a job
	// The answer without unique keys: see submissions.
	submitted []carillon.Job
	// The answer with them.
	jobs     []*carillon.Job
	existing []bool
}

// claimant is the definitions of a submit that have the same unique key, or one that has none.
type claimant struct {
	found *foundKey            // nil: no guard was seen
	def   *carillon.Definition // the one that counts; nil: the holder stays as it is
	id    carillon.JobID       // of the job, if it is a new one
	// The definitions whose answer is the holder, and those whose answer is the job with def.
	ofHolder, ofJob []int
}

// draft decides what becomes of each definition.
func (l *Ledger) draft(s *submission, now carillon.Time) (*draft, error) {
	at := now
	if s.key != nil {
		at = s.key.once.At // so that a repeated request gives the same jobs
	}
	d := &draft{now: now}
	if !s.unique {
		var err error
		if d.changes, d.submitted, err = l.submissions(s.namespace, s.defs, now, at); err != nil {
			return nil, err
		}
		d.join(s, at)
		return d, nil
	}
	claimants, err := l.claimants(s, now)
	if err != nil {
		return nil, err
	}
	d.jobs, d.existing = make([]*carillon.Job, len(s.defs)), make([]bool, len(s.defs))
	for _, c := range claimants {
		if err := d.add(c, s.namespace, at); err != nil {
			return nil, err
		}
	}
	d.join(s, at)
	return d, nil
}

// claimants puts the definitions together that have the same unique key: they are a conflict too, and the
// first one holds the key.
func (l *Ledger) claimants(s *submission, now carillon.Time) (all []*claimant, err error) {
	byKey := map[string]*claimant{}
	for i := range s.defs {
		def := &s.defs[i]
		key := def.UniqueName()
		c := byKey[key]
		if c == nil {
			c = &claimant{found: s.found[key]}
			all = append(all, c)
			if key != "" {
				byKey[key] = c
			}
		}
		if err := c.add(def, i); err != nil {
			return nil, s.refusal(i, err)
		}
		if len(c.ofJob) == 1 && c.ofJob[0] == i {
			if err := l.makeID(s, c, i, now); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func (l *Ledger) makeID(s *submission, c *claimant, i int, now carillon.Time) (err error) {
	if s.ids != nil {
		c.id = s.ids[i]
		return nil
	}
	c.id, err = l.cfg.IDs.Next(now)
	return err
}

// refusal names the job of a request that is refused.
func (s *submission) refusal(i int, err error) error {
	if len(s.defs) == 1 {
		return err
	}
	detail := strings.TrimPrefix(err.Error(), carillon.ErrConflict.Error()+": ")
	return fmt.Errorf("%w: jobs[%d]: %s", carillon.ErrConflict, i, detail)
}

// add decides about one definition more.
func (c *claimant) add(def *carillon.Definition, i int) error {
	held := c.found != nil && c.found.held
	switch {
	case c.def == nil && !held:
		c.def, c.ofJob = def, append(c.ofJob, i)
	case def.Unique.OnConflict == carillon.ConflictReplace:
		c.def, c.ofJob = def, append(c.ofJob, i)
	case def.Unique.OnConflict == carillon.ConflictRefuse || c.def == nil && c.found.holder == nil:
		if !held {
			return fmt.Errorf(
				"%w: another job of the request has the unique key %s", carillon.ErrConflict, def.Unique.Key,
			)
		}
		refusal := carillon.KeyHeld(def.Unique.Key, &c.found.guard)
		refusal.Gone = c.found.holder == nil
		return refusal
	case c.def == nil:
		c.ofHolder = append(c.ofHolder, i)
	default:
		c.ofJob = append(c.ofJob, i)
	}
	return nil
}

// add adds the change of a claimant, if there is one, and its answers.
func (d *draft) add(c *claimant, namespace string, at carillon.Time) error {
	if c.found != nil && c.found.holder != nil {
		holder := c.found.holder.Job
		holder.State = holder.StateOf(c.found.holder.Runs)
		d.say(c.ofHolder, &holder, true)
	}
	if c.def == nil {
		return nil
	}
	if c.found != nil && c.found.holder != nil {
		// The time of a repeated request is that of the first one; a decision about a stored job needs the
		// present.
		change, replaced, err := c.found.holder.Replace(*c.def, c.found.guard, d.now)
		if err != nil {
			return err
		}
		if replaced {
			job := c.found.holder.After(&change)
			d.changes, d.replaces = append(d.changes, change), true
			d.say(append(c.ofHolder, c.ofJob...), &job, true)
			return nil
		}
	}
	job := &carillon.Job{Namespace: namespace, ID: c.id, Definition: *c.def}
	change := carillon.Submit(job, at)
	if guard := carillon.Guards(change.Guards).Of(carillon.GuardUnique); guard != nil && c.found != nil {
		*guard = job.TakeKey(c.found.guard, at)
	}
	d.changes = append(d.changes, change)
	d.say(c.ofJob, job, true)
	d.existing[c.ofJob[0]] = false
	return nil
}

func (d *draft) say(to []int, job *carillon.Job, existing bool) {
	for _, i := range to {
		d.jobs[i], d.existing[i] = job, existing
	}
}

// join lets all changes be written together or not at all, with the guard of the idempotency key in the first
// one: a job that is refused refuses the whole request.
func (d *draft) join(s *submission, at carillon.Time) {
	if s.key != nil && len(s.defs) > 0 {
		if len(d.changes) == 0 {
			d.changes, d.replaces = []carillon.Change{{}}, true
		}
		s.key.add(&d.changes[0], d.use(s, at), d.now)
	}
	for i := range d.changes {
		d.changes[i].Joined = i > 0
	}
}

// use is what the guard of the idempotency key remembers.
func (d *draft) use(s *submission, at carillon.Time) carillon.Use {
	use := carillon.Use{At: at}
	if !s.unique {
		for i := range d.changes {
			use.Jobs = append(use.Jobs, d.changes[i].Job.ID)
		}
	}
	for i, job := range d.jobs {
		use.Jobs = append(use.Jobs, job.ID)
		// One that comes out of its definition alone, see Use.Submitted, is not written down.
		if d.existing[i] || s.sharesKey(i) {
			use.Found = append(use.Found, carillon.UsedJob{
				Index: i, Version: job.Version, State: job.State, Created: job.Created, Updated: job.Updated,
				Existing: d.existing[i],
			})
		}
	}
	return use
}

// sharesKey says that another definition of the submit has the same unique key.
func (s *submission) sharesKey(i int) bool {
	key := s.defs[i].UniqueName()
	for k := range s.defs {
		if key != "" && k != i && s.defs[k].UniqueName() == key {
			return true
		}
	}
	return false
}

func (d *draft) answer() []carillon.Job {
	if d.jobs == nil {
		return submitted(d.changes, d.submitted)
	}
	jobs := make([]carillon.Job, len(d.jobs)) // copies: Definitions remembers and shares the originals
	for i := range jobs {
		jobs[i] = *d.jobs[i]
		jobs[i].Existing = d.existing[i]
	}
	return jobs
}
