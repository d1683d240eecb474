package mysql

import (
	"github.com/carillon-run/carillon"
)

// The history is appended to. A dead letter replaces one of the same run; a retry finds its letter by the
// key.
const (
	endedColumns = `namespace, job, due, covers, until, claimed, started, ended, expires, retry_of, version,
  seq, attempt, failures, losses, crashes, state, priority, queue, name, type, owner, worker, reason`

	insertHistory = `INSERT INTO history`
	replaceDead   = `REPLACE INTO dead`
	deleteDead    = `DELETE dead FROM dead FORCE INDEX (PRIMARY) WHERE (job, due) IN (`
)

// putEnded writes ended runs from memory: nothing is read back.
func (p *batch) putEnded() {
	uncount(&p.statements, withKeys, p.retried, jobDue)
	many(&p.statements, deleteDead, p.retried, jobDue, `)`, 1)
	insert(&p.statements, insertHistory, historyRow, p.ended, ``)
	uncount(&p.statements, withKeys, p.failed, func(b []byte, r run) []byte { return jobDue(b, r.ID) })
	insert(&p.statements, replaceDead, deadRow, p.failed, ``)
	p.count(p.failed)
}

// ended reads place and endedColumns. dead says which of the run's two expiries the row carries.
func (r row) ended(dead bool) (run carillon.Run, place int64) {
	run = carillon.Run{
		Namespace: r.name(1),
		ID:        carillon.RunID{Job: carillon.JobID(r.int(2)), Due: carillon.Time(r.int(3))},
		Covers:    carillon.Time(r.int(4)), Until: carillon.Time(r.int(5)), Claimed: carillon.Time(r.int(6)),
		Started: carillon.Time(r.int(7)),
		Ended:   carillon.Time(r.int(8)), Expires: carillon.Time(r.int(9)), RetryOf: carillon.Time(r.int(10)),
		Version: int32(r.int(11)), Seq: int32(r.int(12)), Attempt: int32(r.int(13)),
		Failures: int32(r.int(14)), Losses: int32(r.int(15)), Crashes: int32(r.int(16)),
		State: carillon.State(r.int(17)), Priority: int8(r.int(18)), Queue: r.name(19),
		About:  &carillon.About{Name: r.name(20), Type: r.name(21), Owner: r.name(22)},
		Worker: r.name(23), Reason: r.text(24),
	}
	if dead {
		run.Expires, run.DeadExpires = 0, run.Expires
	}
	return run, r.int(0)
}

// The output of runs, by primary key. The last value is kept.
const (
	putResults     = `INSERT INTO result (due, job, namespace, value) VALUES `
	putCheckpoints = `INSERT INTO checkpoint (due, job, namespace, value) VALUES `
	putPayloads    = `INSERT INTO run_payload (due, job, namespace, value) VALUES `
	keepLast       = ` ON DUPLICATE KEY UPDATE value = VALUES(value)`
)

func (p *batch) putOutputs() {
	type output struct {
		run   *carillon.Run
		value []byte
	}
	var results, checkpoints, payloads []output
	for _, run := range p.outputs {
		if run.Output.Result != nil {
			results = append(results, output{run, run.Output.Result})
		}
		if run.Output.Checkpoint != nil {
			checkpoints = append(checkpoints, output{run, run.Output.Checkpoint})
		}
		if run.Output.Payload != nil {
			payloads = append(payloads, output{run, run.Output.Payload})
		}
	}
	put := func(b []byte, o output) []byte {
		return appendSQL(b, `(?,?,?,?)`, o.run.ID.Due, o.run.ID.Job, o.run.Namespace, o.value)
	}
	many(&p.statements, putResults, results, put, keepLast, 0)
	many(&p.statements, putCheckpoints, checkpoints, put, keepLast, 0)
	many(&p.statements, putPayloads, payloads, put, keepLast, 0)
}
