package mysql

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
)

// maxTries bounds how often a commit is tried while other commits keep changing the rows that it compares.
const maxTries = 30

// errMissed says that a row was not as it was when the change was decided.
var errMissed = errors.New("a row was not as it was")

// Commit implements carillon.Store. It does not stop half way when ctx ends: the other changes of the batch
// would pay for it. It assumes that all rows are as they were, and so need not read them. If the assumption
// is wrong, it undoes everything and does it again with care.
func (s *Store) Commit(ctx context.Context, changes []carillon.Change) (lost []int, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(changes) == 0 {
		return nil, nil
	}
	err = s.useSoon(context.WithoutCancel(ctx), func(l *conn) error {
		how, assumed := care{lined: s.lined(changes)}, false
		return l.insist(func() (err error) {
			lost, err = l.write(changes, how)
			switch {
			case missed(err) && how.lined && len(changes) == 1:
				lost, err = []int{0}, nil
			case missed(err):
				assumed = assumed || !how.lined
				how = care{compare: len(changes) > 1, lined: true}
			case err == nil && assumed && len(lost) == 0: // a hold was in the way, nothing else
				s.wary.Store(wary)
			}
			return err
		})
	})
	if err != nil {
		return nil, tried("commit", named(err))
	}
	return lost, nil
}

// named marks an error that says that the disk is full.
func named(err error) error {
	switch number(err) {
	case diskFull, tableFull:
	case writeFailed, engineFailed:
		if !strings.Contains(err.Error(), "No space left") {
			return err
		}
	default:
		return err
	}
	return fmt.Errorf("%w: %w", carillon.ErrFull, err)
}

// insist runs a transaction again as long as other transactions are in its way.
func (l *conn) insist(transaction func() error) error {
	for try := 1; ; try++ {
		err := transaction()
		if err == nil || try == maxTries || !missed(err) && !inTheWay(err) {
			return err
		}
		if inTheWay(err) {
			if err := l.pause(try); err != nil {
				return err
			}
		}
	}
}

func missed(err error) bool {
	n := number(err)
	return n == duplicate || n == outOfRange || errors.Is(err, errMissed)
}

// inTheWay says that the server undid the transaction because it and another one waited for each other.
func inTheWay(err error) bool {
	n := number(err)
	return n == deadlock || n == lockTimeout
}

// pause lets other transactions go first. It waits longer the more often they were in the way.
func (l *conn) pause(try int) error {
	wait := time.NewTimer(time.Duration(rand.Int64N(int64(min(try, 20)) * int64(time.Millisecond))))
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	}
}

// beginWrite locks no gaps between rows: with gap locks, two commits that append would wait for each other. A
// row that must not exist is locked by inserting it (see group).
const beginWrite = `SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION`

// care is what a commit does not take for granted.
type care struct {
	compare bool // read first which changes have lost; else an error says that one has
	lined   bool // see lines.go
}

// write writes the changes in a transaction.
func (l *conn) write(changes []carillon.Change, how care) (lost []int, err error) {
	p := batch{statements: statements{buf: l.store.buffer()}, lined: how.lined}
	defer func() { l.store.buffers.Put(&p.statements.buf) }()
	if edits := editedJobs(changes); how.compare || len(edits) > 0 {
		if err := l.exec([]byte(beginWrite)); err != nil {
			return nil, err
		}
		if lost, err = l.lockCompared(&p, changes, edits, how.compare); err != nil {
			return nil, l.end(err)
		}
		if len(lost) == len(changes) {
			return lost, l.end(nil)
		}
	} else {
		p.statements.add(beginWrite)
	}
	if err := p.write(changes, lost); err != nil {
		return nil, l.end(err)
	}
	p.statements.add(`COMMIT`)
	if err := l.send(&p.statements); err != nil {
		return nil, l.end(err)
	}
	return lost, nil
}

// lockCompared locks and reads what the batch has to know: the edited jobs and, with all, every row that the
// changes compare.
func (l *conn) lockCompared(
	p *batch, changes []carillon.Change, edits []carillon.JobID, all bool,
) (lost []int, err error) {
	if all {
		return l.compare(p, changes)
	}
	if p.jobs, err = l.lockJobs(edits); err != nil {
		return nil, err
	}
	revs := map[carillon.JobID]int32{}
	for id, job := range p.jobs {
		revs[id] = job.rev
	}
	for i := range changes {
		job := changes[i].Job
		if job == nil {
			continue
		}
		if rev, looked := revs[job.ID]; looked && rev != job.Rev || !looked && job.Rev != 0 {
			return nil, errMissed
		}
		revs[job.ID] = job.Rev + 1
	}
	return nil, nil
}

// editedJobs returns the existing jobs that the changes write: what happens to their definition depends on
// the stored one.
func editedJobs(changes []carillon.Change) (ids []carillon.JobID) {
	for i := range changes {
		if job := changes[i].Job; job != nil && job.Rev != 0 {
			ids = append(ids, job.ID)
		}
	}
	return ids
}
