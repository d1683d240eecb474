package carillon

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"
)

const (
	maxUniqueKey = 100 // characters
	minUniqueFor = Duration(time.Second)
	maxUniqueFor = Duration(365 * 24 * time.Hour)
)

// Unique is a key of which a namespace has one job at a time. A submit with a key that another job holds is a
// conflict.
type Unique struct {
	Key string `json:"key"`
	// For is how long the job holds the key, from its submit on, whatever becomes of the job. But a job that
	// is canceled no longer holds it.
	For Duration `json:"for,omitzero"`
	// Until says what ends the hold in place of a time. Default UntilEnded, if For is not given.
	Until UniqueUntil `json:"until,omitempty"`
	// OnConflict is what the submit with this definition does if another job holds the key. Default
	// ConflictReturn.
	OnConflict OnConflict `json:"on_conflict,omitempty"`
}

// UniqueUntil is what ends the hold of a unique key.
type UniqueUntil string

// UntilEnded is the end of the last run by the job's schedule, or the cancel of the job if no such run goes
// on. Runs that a caller asks for beside the schedule do not count.
const UntilEnded UniqueUntil = "ended"

// OnConflict is what a submit does if another job holds its unique key.
type OnConflict string

const (
	ConflictReturn OnConflict = "return" // the caller gets that job; nothing changes
	// That job gets the new definition, as by an edit. If that is not possible any more, because the run of a
	// one-off has begun, a new job takes the key.
	ConflictReplace OnConflict = "replace"
	ConflictRefuse  OnConflict = "refuse"
)

// admitUnique checks the unique key of a job, and fills in the defaults.
func (d *Definition) admitUnique() *FieldError {
	if d.Unique == nil {
		return nil
	}
	unique := *d.Unique // the caller can use it for another job
	d.Unique = &unique
	u := d.Unique
	if !word(u.Key, maxUniqueKey) {
		return invalid("unique.key", cut(u.Key),
			"1 to %d characters of a-z A-Z 0-9 . _ - / @, the first a letter or digit", maxUniqueKey)
	}
	if u.For == 0 && u.Until == "" {
		u.Until = UntilEnded
	}
	if u.OnConflict == "" {
		u.OnConflict = ConflictReturn
	}
	switch {
	case u.For != 0 && u.Until != "":
		return invalid("unique", "for and until", "only one of for or until; none means until ended").
			because("for and until are given")
	case u.Until != "" && u.Until != UntilEnded:
		return invalid("unique.until", string(u.Until), "%s; for a time give for", UntilEnded)
	case u.For != 0 && (u.For < minUniqueFor || u.For > maxUniqueFor):
		return invalid("unique.for", u.For, "1s to 365d")
	case u.OnConflict != ConflictReturn && u.OnConflict != ConflictReplace && u.OnConflict != ConflictRefuse:
		return invalid("unique.on_conflict", string(u.OnConflict), "return, replace or refuse")
	}
	return nil
}

// admitUniqueEdit refuses an edit of what the guard of the key says: only a submit writes the guard.
func (d *Definition) admitUniqueEdit(before *Definition) *FieldError {
	var u, was Unique
	if d.Unique != nil {
		u = *d.Unique
	}
	if before.Unique != nil {
		was = *before.Unique
	}
	field, given := "", ""
	switch {
	case u.Key != was.Key:
		field, given = "unique.key", cut(u.Key)
	case u.For != was.For:
		field, given = "unique.for", u.For.String()
	case u.Until != was.Until:
		field, given = "unique.until", string(u.Until)
	default:
		return nil
	}
	return invalid(field, given, "the value that the job was submitted with, or a new job").
		because("the job got its unique key with its submit; an edit can only change on_conflict")
}

// UniqueName is the job's unique key as its definition says it; empty: the job has none.
func (d *Definition) UniqueName() string {
	if d.Unique == nil {
		return ""
	}
	return d.Unique.Key
}

// UniqueKey is the key of the guard of the job's unique key; empty: the job has none.
func (d *Definition) UniqueKey() string {
	if d.Unique == nil {
		return ""
	}
	return string(GuardUnique) + "/" + d.Unique.Key
}

// uniqueFor is how long the job holds its unique key; zero: it has none, or holds it until it has ended.
func (d *Definition) uniqueFor() Duration {
	if d.Unique == nil {
		return 0
	}
	return d.Unique.For
}

// keyHold is the value of the guard of a unique key: the job that holds it.
type keyHold struct {
	Job        JobID `json:"job"`
	UntilEnded bool  `json:"until_ended,omitempty"`
}

func keyHoldOf(g *Guard) (h keyHold) {
	if len(g.Value) == 0 {
		return h
	}
	if err := json.Unmarshal(g.Value, &h); err != nil { // only this file writes the value
		panic("unique guard " + g.Key + " holds " + strconv.Quote(string(g.Value)))
	}
	return h
}

// TakeKey is the guard of the job's unique key as the job holds it from now on. was is the guard of a job
// that no longer holds the key; its Rev is 0 if there is none.
func (j *Job) TakeKey(was Guard, now Time) Guard {
	was.Namespace, was.Key = j.Namespace, j.UniqueKey()
	was.Value, _ = json.Marshal(keyHold{j.ID, j.Unique.Until == UntilEnded}) // of text
	if was.Expires = 0; j.Unique.For != 0 {
		was.Expires = now.Add(j.Unique.For.Std())
	}
	was.First = firstRev(j.ID)
	return was
}

// firstRev is the revision with which the guard of a unique key begins. A key is used again at any time after
// its guard has expired, also while Forget removes the guard. If each guard began with 1, a submit that was
// decided on the removed one could win against the one that was made in its place.
func firstRev(id JobID) int32 {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(id.String())) // never fails
	return int32(sum.Sum32()>>2) + 1
}

// KeyHolder is the job that holds a unique key by its guard. false: the key is free. Whether the job still
// holds it also depends on the job: see JobSnapshot.HoldsKey.
func (g *Guard) KeyHolder(now Time) (JobID, bool) {
	if len(g.Value) == 0 || g.Expired(now) {
		return 0, false
	}
	return keyHoldOf(g).Job, true
}

// HoldsKey says that the job, which the guard of a unique key names, still holds the key. The end of a job
// normally frees its key, but not every change that ends a job can tell that it does.
func (w JobSnapshot) HoldsKey(guard *Guard) bool {
	if !keyHoldOf(guard).UntilEnded {
		return w.Job.State != JobCanceled
	}
	for i := range w.Runs {
		if w.Runs[i].ByClock() {
			return true
		}
	}
	return false
}

// Replace gives the job, which holds a unique key, the definition of a submit with the same key, and lets it
// hold the key as that definition says. false: the job cannot be replaced any more, because the run of the
// one-off has begun, or because no run is left that could be replaced. Then a new job takes the key.
func (w JobSnapshot) Replace(def Definition, guard Guard, now Time) (Change, bool, error) {
	if !w.replaceable() {
		return Change{}, false, nil
	}
	c, err := w.Edit(def, now)
	if err != nil {
		return Change{}, false, err
	}
	c.Guards = append(c.Guards[:len(c.Guards):len(c.Guards)], c.Job.TakeKey(guard, now))
	return c, true, nil
}

func (w JobSnapshot) replaceable() bool {
	if w.Job.State == JobCanceled {
		return false
	}
	fresh := false
	for i := range w.Runs {
		switch run := &w.Runs[i]; {
		case !run.ByClock():
		case run.Attempt == 0 && run.State == StateWaiting:
			fresh = true
		case !w.Job.Schedule.Recurring():
			return false
		}
	}
	return fresh
}

// freeKey lets a change that ends runs free the job's unique key, if one of them was the only run of a
// one-off by its schedule. Other changes do not know which runs are left: then the next submit with the key
// finds out that the job has ended.
func (c *Change) freeKey(job *Job) {
	if job.Unique == nil || job.Unique.Until != UntilEnded || job.Schedule.Recurring() {
		return
	}
	for i := range c.Runs {
		run := &c.Runs[i]
		if run.State.Ended() && run.ByClock() && !run.Has(FlagPlanned) && run.Seq == 0 {
			c.foldKey(job, false)
			return
		}
	}
}

// freeKeyOfCanceled is freeKey for the cancel of the job. A key that is held until the job has ended is held
// while a worker still has a run.
func (c *Change) freeKeyOfCanceled(job *Job) {
	if job.Unique == nil {
		return
	}
	goesOn := false
	for i := range c.Runs {
		goesOn = goesOn || !c.Runs[i].State.Ended() && c.Runs[i].ByClock()
	}
	c.foldKey(job, goesOn)
}

// foldKey frees the key if the job holds it; with onlyFor not if it holds it until it has ended. The guard is
// not removed: Forget does that later, see GuardGrace.
func (c *Change) foldKey(job *Job, onlyFor bool) {
	id := job.ID
	c.Folds = append(c.Folds, Fold{
		Namespace: job.Namespace, Key: job.UniqueKey(), Step: func(g Guard, now Time) (Guard, bool) {
			if holder, held := g.KeyHolder(now); !held || holder != id {
				return g, true
			}
			if onlyFor && keyHoldOf(&g).UntilEnded {
				return g, true
			}
			g.Expires = now
			return g, true
		},
	})
}

// KeyHeldError says that a submit was refused because another job holds its unique key.
type KeyHeldError struct {
	Key   string
	Job   JobID
	Until Time // 0: until that job has ended
	Gone  bool // that job is no longer stored
}

// KeyHeld is the refusal of a submit by the guard of its key.
func KeyHeld(key string, guard *Guard) *KeyHeldError {
	return &KeyHeldError{Key: key, Job: keyHoldOf(guard).Job, Until: guard.Expires}
}

func (e *KeyHeldError) Error() string {
	until := "until it has ended"
	if e.Until != 0 {
		until = "until " + e.Until.String()
	}
	gone := ""
	if e.Gone {
		gone = ", which is no longer stored,"
	}
	return fmt.Sprintf("%v: %s%s holds the unique key %s %s", ErrConflict, e.Job, gone, e.Key, until)
}

func (e *KeyHeldError) Is(target error) bool { return target == ErrConflict }
