package ledger

import (
	"fmt"

	"github.com/carillon-run/carillon"
)

// nameHooks gives ids to the jobs of hooks. Such changes take the way of changes with folds: that one writes
// further changes together with a change, or not at all.
func (l *Ledger) nameHooks(changes []carillon.Change) error {
	for i := range changes { // by index: every commit asks, and a change is large
		for _, job := range changes[i].Hooks {
			if job.ID != 0 {
				continue
			}
			id, err := l.cfg.IDs.Next(job.Schedule.At)
			if err != nil {
				return fmt.Errorf("name the job of a hook: %w", err)
			}
			job.ID = id
		}
	}
	return nil
}

// insertHooks adds the changes that insert the jobs of a change's hooks.
func (m *merged) insertHooks(c *carillon.Change) {
	for _, job := range c.Hooks {
		m.inserts = append(m.inserts, carillon.Submit(job, job.Schedule.At))
	}
}
