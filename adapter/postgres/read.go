package postgres

import (
	"context"

	"github.com/carillon-run/carillon"
)

// Callers nearly always ask for the latest definition, which is in the row of the job, by primary key. An
// older definition is found by the key of its table, together with that row.
var (
	jobsByKey = statement{
		"jobs_by_key",
		`SELECT ` + jobColumns + `, ` + definitionColumns +
			` FROM carillon.job j WHERE j.id = ANY ($1::bigint[])`,
	}

	olderByKey = statement{"older_by_key", `SELECT ` + jobColumns + `, d.version, d.name, d.type, d.owner,
  d.spec, d.payload
FROM unnest($1::bigint[], $2::integer[]) q(id, version) JOIN carillon.definition d ON d.job = ANY(ARRAY[q.id])
  AND d.version = q.version
CROSS JOIN LATERAL (SELECT * FROM carillon.job j WHERE j.id = d.job OFFSET 0) j`}
)

// Jobs implements carillon.Store.
func (s *Store) Jobs(ctx context.Context, ids []carillon.JobVersion) ([]carillon.Job, error) {
	asked := make([]carillon.JobID, len(ids))
	for i, id := range ids {
		asked[i] = id.Job
	}
	latest := make([]carillon.Job, 0, len(ids))
	if err := s.jobs(ctx, &jobsByKey, &latest, int8Array(asked)); err != nil {
		return nil, err
	}
	place := make(map[carillon.JobID]int, len(latest))
	for i := range latest {
		place[latest[i].ID] = i
	}
	found := make([]carillon.Job, 0, len(ids))
	var older []carillon.JobID
	var versions []int32
	for _, id := range ids {
		i, is := place[id.Job]
		switch {
		case !is:
		case id.Version == 0 || id.Version == latest[i].Version:
			found = append(found, latest[i])
		default:
			older, versions = append(older, id.Job), append(versions, id.Version)
		}
	}
	if len(older) == 0 {
		return found, nil
	}
	err := s.jobs(ctx, &olderByKey, &found, int8Array(older), int4Array(versions))
	return found, err
}

func (s *Store) jobs(ctx context.Context, by *statement, found *[]carillon.Job, params ...[]byte) error {
	return s.read(ctx, call{by, params, func(r *row) error {
		job, _, err := r.job()
		*found = append(*found, job)
		return err
	}})
}

// A run can be unfinished, by primary key; in history, by history_job, the last of that name; or, once
// history has forgotten it, among the dead letters, by dead_run. The caller finds the last record: sorting
// them here would tempt the server to walk through history in that order.
var (
	runsByKey = forRows("runs_by_key", `shard int2 key, due int8 key, job int8 key`,
		`SELECT `+runColumns+`, j.name, j.type, j.owner
FROM ROWS x JOIN carillon.run r ON r.shard = ANY(ARRAY[x.shard]) AND r.due = x.due AND r.job = x.job
  LEFT JOIN carillon.job j ON j.id = ANY(ARRAY[r.job])`)

	historyByKey = forRows("history_by_key", `q_job int8 key, q_due int8 key`, `SELECT place, `+endedColumns+`
FROM ROWS x JOIN carillon.history h ON h.job = ANY(ARRAY[x.q_job]) AND h.due = x.q_due`)

	deadByKey = forRows("dead_by_key", `q_job int8 key, q_due int8 key`, `SELECT place, `+endedColumns+`
FROM ROWS x JOIN carillon.dead d ON d.job = ANY(ARRAY[x.q_job]) AND d.due = x.q_due`)
)

// Runs implements carillon.Store. It reads the tables in the order in which a run moves through them, so that
// it does not miss a run that moves meanwhile.
func (s *Store) Runs(ctx context.Context, ids []carillon.RunID, whole bool) ([]carillon.Run, error) {
	found := map[carillon.RunID]*carillon.Run{}
	unfinished := newRows(runsByKey)
	for _, id := range ids {
		unfinished.runKey(id)
	}
	hot := unfinished.call()
	hot.row = func(r *row) error {
		run := r.withAbout()
		found[run.ID] = &run
		return nil
	}
	err := s.read(ctx, hot)
	if err == nil && len(found) < len(ids) {
		err = s.endedRuns(ctx, ids, found)
	}
	if err == nil && whole {
		err = s.outputs(ctx, found)
	}
	if err != nil {
		return nil, err
	}
	runs := make([]carillon.Run, 0, len(found))
	for _, id := range ids {
		if run := found[id]; run != nil {
			runs = append(runs, *run)
		}
	}
	return runs, nil
}

// withAbout reads runColumns and the columns of the job.
func (r *row) withAbout() carillon.Run {
	run := r.unfinished()
	run.About = &carillon.About{Name: r.name(), Type: r.name(), Owner: r.name()}
	return run
}

// endedRuns reads the runs that were not found yet.
func (s *Store) endedRuns(
	ctx context.Context, ids []carillon.RunID, found map[carillon.RunID]*carillon.Run,
) error {
	history, dead := newRows(historyByKey), newRows(deadByKey)
	for _, id := range ids {
		if found[id] == nil {
			history.deadKey(id)
			dead.deadKey(id)
		}
	}
	last := map[carillon.RunID]int64{}
	fromHistory, fromDead := history.call(), dead.call()
	fromHistory.row = func(r *row) error {
		if run, place := r.ended(false); place > last[run.ID] {
			found[run.ID], last[run.ID] = &run, place
		}
		return nil
	}
	fromDead.row = func(r *row) error {
		if run, _ := r.ended(true); found[run.ID] == nil {
			found[run.ID] = &run
		}
		return nil
	}
	return s.read(ctx, fromHistory, fromDead)
}

// By primary key.
var (
	resultByKey = forRows("result_by_key", `job int8 key, due int8 key`,
		`SELECT o.job, o.due, o.value FROM ROWS x JOIN carillon.result o ON o.job = ANY(ARRAY[x.job])
  AND o.due = x.due`)
	checkpointByKey = forRows("checkpoint_by_key", `job int8 key, due int8 key`,
		`SELECT o.job, o.due, o.value FROM ROWS x JOIN carillon.checkpoint o ON o.job = ANY(ARRAY[x.job])
  AND o.due = x.due`)
	payloadByKey = forRows("payload_by_key", `job int8 key, due int8 key`,
		`SELECT o.job, o.due, o.value FROM ROWS x JOIN carillon.run_payload o ON o.job = ANY(ARRAY[x.job])
  AND o.due = x.due`)
)

// outputs reads the outputs of the runs.
func (s *Store) outputs(ctx context.Context, found map[carillon.RunID]*carillon.Run) error {
	results, checkpoints, payloads := newRows(resultByKey), newRows(checkpointByKey), newRows(payloadByKey)
	for id := range found {
		results.deadKey(id)
		checkpoints.deadKey(id)
		payloads.deadKey(id)
	}
	of := func(r *row) *carillon.Output {
		run := found[r.runID()]
		if run.Output == nil {
			run.Output = &carillon.Output{}
		}
		return run.Output
	}
	result, checkpoint, payload := results.call(), checkpoints.call(), payloads.call()
	result.row = func(r *row) error { of(r).Result = r.bytes(); return nil }
	checkpoint.row = func(r *row) error { of(r).Checkpoint = r.bytes(); return nil }
	payload.row = func(r *row) error { of(r).Payload = r.bytes(); return nil }
	return s.read(ctx, result, checkpoint, payload)
}
