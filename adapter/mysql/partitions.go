package mysql

import (
	"database/sql/driver"
	"errors"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// partitions says whether the partitions of a table can be changed.
type partitions struct {
	mu    sync.Mutex // guards what follows
	fixed bool
	again carillon.Time
}

// areFixed says that the partitions stay as they are: old rows are removed row by row.
func (p *partitions) areFixed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fixed
}

func (p *partitions) fix() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fixed = true
}

// wait says that the table was in use a short while ago, so it is too early to try again.
func (p *partitions) wait(now carillon.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.fixed && now < p.again
}

func (p *partitions) waitUntil(again carillon.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again = again
}

// How long statements wait for a table: beBrief for those that change partitions, bePatient for all others.
const (
	usualPatience = `5`
	bePatient     = `SET SESSION lock_wait_timeout = ` + usualPatience
	beBrief       = `SET SESSION lock_wait_timeout = 1`
)

// busyRest is how long a table that was in use is left alone: every attempt can delay commits by a second.
const busyRest = carillon.Time(time.Minute / time.Millisecond)

// change changes partitions. It waits for the end of every transaction that has used the table, and all later
// calls wait behind it, every commit too: so it gives up after a second. That is no error, because there is a
// next time. If the account does not have the right, that is no error either: only speed depends on
// partitions.
func (l *conn) change(p *partitions, now carillon.Time, statements func() error) (done bool, err error) {
	if p.areFixed() || p.wait(now) {
		return false, nil
	}
	if err := l.exec([]byte(beBrief)); err != nil {
		return false, err
	}
	err = statements()
	if l.exec([]byte(bePatient)) != nil {
		return false, errors.Join(err, driver.ErrBadConn)
	}
	switch {
	case inTheWay(err):
		p.waitUntil(now + busyRest)
		return false, nil
	case refused(err):
		p.fix()
		l.store.warn.Do(func() {
			l.store.logger.Warn(
				"the database's account may not change partitions: what is old is removed row by row",
				"error", err,
			)
		})
		return false, nil
	}
	return err == nil, err
}
