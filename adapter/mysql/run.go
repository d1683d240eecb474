package mysql

import (
	"github.com/carillon-run/carillon"
)

// The hot table, by primary key. An update does not write the columns that a run is born with. One statement
// updates all runs that get the same values: the runs that a worker claims at a time differ only in their
// keys. Runs that differ are updated by an INSERT of existing rows (see guard.go). That costs twice as much
// for each run, but a statement for each would cost six times as much.
const (
	runColumns = `due, job, wake, covers, claimed, started, retry_of, rev, version, seq, attempt, failures,
  losses, crashes, state, priority, flags, extra, namespace, queue, worker, reason, needs, share,
  hold, slots`

	insertRuns = `INSERT INTO run`

	updateAlike = `UPDATE run FORCE INDEX (PRIMARY) SET rev = rev + 1, wake = ?, claimed = ?, started = ?,
  version = ?, attempt = ?, failures = ?, losses = ?, crashes = ?, state = ?, priority = ?, flags = ?,
  queue = ?, worker = ?, reason = ?, needs = ?, share = ?, hold = ?, slots = ?
WHERE ?(due, job, rev) IN (`

	updateRuns = `INSERT INTO run (due, job, shard, rev, wake, claimed, started, version, attempt, failures,
  losses, crashes, state, priority, flags, queue, worker, reason, needs, share, hold, slots) VALUES `
	ifRun = ` ON DUPLICATE KEY UPDATE
  wake = IF(rev = VALUES(rev), VALUES(wake), wake),
  claimed = IF(rev = VALUES(rev), VALUES(claimed), claimed),
  started = IF(rev = VALUES(rev), VALUES(started), started),
  version = IF(rev = VALUES(rev), VALUES(version), version),
  attempt = IF(rev = VALUES(rev), VALUES(attempt), attempt),
  failures = IF(rev = VALUES(rev), VALUES(failures), failures),
  losses = IF(rev = VALUES(rev), VALUES(losses), losses),
  crashes = IF(rev = VALUES(rev), VALUES(crashes), crashes),
  state = IF(rev = VALUES(rev), VALUES(state), state),
  priority = IF(rev = VALUES(rev), VALUES(priority), priority),
  flags = IF(rev = VALUES(rev), VALUES(flags), flags),
  queue = IF(rev = VALUES(rev), VALUES(queue), queue),
  worker = IF(rev = VALUES(rev), VALUES(worker), worker),
  reason = IF(rev = VALUES(rev), VALUES(reason), reason),
  needs = IF(rev = VALUES(rev), VALUES(needs), needs),
  share = IF(rev = VALUES(rev), VALUES(share), share),
  slots = IF(rev = VALUES(rev), VALUES(slots), slots),
  hold = `
	raiseRev = `, rev = rev + (rev = VALUES(rev))`

	deleteRuns = `DELETE run FROM run FORCE INDEX (PRIMARY) WHERE `
	withRevs   = `(due, job, rev) IN (`
)

// few is for how many runs a separate statement does not pay.
const few = 6

func (p *batch) putRuns() {
	insert(&p.statements, insertRuns, runRow, p.newRuns, ``)
	var different []*carillon.Run
	update := ifRun + putHoldCheck + raiseRev
	if p.lined {
		update = ifRun + putHold + raiseRev
	}
	for _, group := range p.alike(p.updated) {
		if len(group.runs) < few {
			different = append(different, group.runs...)
			continue
		}
		many(&p.statements, group.update, group.runs, comparedRun, `)`, 1)
	}
	many(&p.statements, updateRuns, different, func(b []byte, r *carillon.Run) []byte {
		return appendSQL(b, `(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, r.ID.Due, r.ID.Job,
			r.ID.Job.Shard(), r.Rev, r.Wake, r.Claimed, r.Started,
			r.Version, r.Attempt, r.Failures, r.Losses, r.Crashes, r.State, r.Priority,
			r.Flags&^carillon.FlagAdditional, r.Queue, r.Worker, r.Reason, r.Needs, r.Share,
			r.Hold, r.Slots)
	}, update, changed)
	plain, lined := p.checked(p.left)
	many(&p.statements, deleteRuns+unheld+withRevs, plain, comparedRun, `)`, 1)
	many(&p.statements, deleteRuns+withRevs, lined, comparedRun, `)`, 1)
	p.putLines()
}

// comparedRun writes the key of a run and its revision; a run that this commit inserts has revision 1.
func comparedRun(b []byte, run *carillon.Run) []byte {
	return appendSQL(b, `(?,?,?)`, run.ID.Due, run.ID.Job, max(run.Rev, 1))
}

// alikeRuns has runs that get the same values.
type alikeRuns struct {
	update string
	runs   []*carillon.Run
}

func (p *batch) alike(runs []*carillon.Run) (groups []alikeRuns) {
	index := map[string]int{}
	var b []byte
	for _, run := range runs {
		var wake any = run.Wake
		if run.Wake == run.ID.Due {
			wake = raw(`due`)
		}
		b = appendSQL(b[:0], updateAlike, wake, run.Claimed, run.Started, run.Version, run.Attempt,
			run.Failures, run.Losses, run.Crashes,
			run.State, run.Priority, run.Flags&^carillon.FlagAdditional, run.Queue, run.Worker, run.Reason,
			run.Needs, run.Share, run.Hold, run.Slots, p.check(run))
		i, known := index[string(b)]
		if !known {
			i = len(groups)
			groups = append(groups, alikeRuns{update: string(b)})
			index[groups[i].update] = i
		}
		groups[i].runs = append(groups[i].runs, run)
	}
	return groups
}

// unfinished reads runColumns, without About.
func (r row) unfinished() carillon.Run {
	run := carillon.Run{
		ID:   carillon.RunID{Due: carillon.Time(r.int(0)), Job: carillon.JobID(r.int(1))},
		Wake: carillon.Time(r.int(2)), Covers: carillon.Time(r.int(3)), Claimed: carillon.Time(r.int(4)),
		Started: carillon.Time(r.int(5)),
		RetryOf: carillon.Time(r.int(6)), Rev: int32(r.int(7)), Version: int32(r.int(8)),
		Seq: int32(r.int(9)), Attempt: int32(r.int(10)),
		Failures: int32(r.int(11)), Losses: int32(r.int(12)), Crashes: int32(r.int(13)),
		State: carillon.State(r.int(14)), Priority: int8(r.int(15)), Flags: carillon.Flags(r.int(16)),
		Namespace: r.name(18), Queue: r.name(19), Worker: r.name(20), Reason: r.text(21), Needs: r.name(22),
		Share: r.name(23), Hold: r.name(24), Slots: r.name(25),
	}
	if r.bool(17) {
		run.Flags |= carillon.FlagAdditional
	}
	return run
}
