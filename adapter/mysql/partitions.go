package mysql

import (
	"database/sql/driver"
	"errors"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// partitions is whether those of a table can be changed.
type partitions struct {
	mu    sync.Mutex // guards what follows
	fixed bool
	again carillon.Time
}

// areFixed says that they stay as they are: what is old is removed row by row.
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

// wait says that the table was in use a while ago.
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

// For the statements that change partitions, and for all others.
const (
	usualPatience = `5`
	bePatient     = `SET SESSION lock_wait_timeout = ` + usualPatience
	beBrief       = `SET SESSION lock_wait_timeout = 1`
)

// busyRest is how long a table that was in use is left alone: every attempt may cost those who commit a second.
const busyRest = carillon.Time(time.Minute / time.Millisecond)

// change changes partitions. It waits for the end of every transaction that has used the table, and all who come later wait
// behind it, each commit too: so it gives up after a second. That is no error, there is a next time. Nor is it one that the
// account has not the right: nothing but speed depends on partitions.
func (l *link) change(p *partitions, now carillon.Time, statements func() error) (done bool, err error) {
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
			l.store.logger.Warn("the database's account may not change partitions: what is old is removed row by row", "error", err)
		})
		return false, nil
	}
	return err == nil, err
}
