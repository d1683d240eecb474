package ledger

import "github.com/carillon-run/carillon"

// Slots are the free slots of workers whose pulls wait on this node.
type Slots interface {
	// Reserve takes a free slot for a run that is about to be submitted, unless a due run waits that could
	// take the slot, or due runs of the same lane are on their way to a slot. When the run is committed as
	// claimed, the owner of the slot begins it; nothing has to be handed over afterwards.
	Reserve(run *carillon.Run, job *carillon.Job, now carillon.Time) (worker string, ok bool)
	// Release gives back slots that were reserved for runs that were not committed.
	Release(ids []carillon.RunID)
	// Starting says that more starts are about to come: due runs wait, and some are on their way to a slot.
	// The ledger then takes fewer submits, and with one flusher holds ends back. It asks before every commit.
	Starting() bool
	// Free is how many slots Reserve could give to runs like this one. Coming is how many slots the pulls of
	// these workers asked for in all, those that are free included; 0 if so many due runs wait for them that
	// it takes long until one is free. The caller holds a lock of the ledger.
	Free(run *carillon.Run) (slots, coming int)
}

// UseSlots lets due jobs be submitted already claimed by these slots (preclaimed), and lets starts go before
// ends. Call it before Run.
func (l *Ledger) UseSlots(slots Slots) { l.slots = slots }

// preclaim claims due runs for free slots, in place, and returns their ids. A run that is inserted already
// claimed needs two writes and one commit for its whole life instead of three and two, with the same fence
// and the same repair.
func (l *Ledger) preclaim(changes []carillon.Change, now carillon.Time) (reserved []carillon.RunID) {
	if l.slots == nil {
		return nil
	}
	var refused *carillon.Run
	for i := range changes {
		run := &changes[i].Runs[0]
		if !l.claimable(&changes[i], now) {
			continue
		}
		if refused != nil && refused.Lane() == run.Lane() {
			continue // the same workers can perform it, and had no slot
		}
		if !isSoon(run.Wake, changes[i].Job.Created) { // it has waited for its commit until it was due
			job := *changes[i].Job // the original is in the answer to the caller: see submissions
			changes[i].Job = &job
		}
		worker, ok := l.slots.Reserve(run, changes[i].Job, now)
		if !ok {
			refused = run // a run of another lane can still have a slot
			continue
		}
		verdict, c := carillon.Candidate{
			Job: changes[i].Job, Run: *run, Worker: worker, Reuse: changes[i].Runs, // not needed any more
		}.Decide(now)
		if verdict != carillon.VerdictClaim {
			l.slots.Release([]carillon.RunID{run.ID})
			continue
		}
		if reserved == nil {
			reserved = make([]carillon.RunID, 0, len(changes)-i)
		}
		reserved = append(reserved, run.ID)
		changes[i].Runs = c.Runs
	}
	return reserved
}

// preclaimLate claims due runs of submits that had to wait for their commit, and found no free slot when they
// came: by now some can be free.
func (l *Ledger) preclaimLate(batch []entry) {
	now := l.cfg.Clock.Now()
	for i := range batch {
		if reserved := batch[i].reserved; reserved != nil && len(*reserved) < len(batch[i].changes) {
			*reserved = append(*reserved, l.preclaim(batch[i].changes, now)...)
		}
	}
}

// releaseSlots gives back the slots of a submit that failed. If the store committed a run after all, the
// watch loop finds a claimed run that no worker holds.
func (l *Ledger) releaseSlots(reserved []carillon.RunID) {
	if len(reserved) > 0 {
		l.slots.Release(reserved)
	}
}
