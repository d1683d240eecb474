package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/idgen"
)

// Intake is the table in which the function carillon.submit leaves jobs. Applications call it inside their
// own transactions:
//
//	SELECT carillon.submit('{"type": "email.send", "target": {"handler": {}}}')
//
// No role can call it until it is granted: see migration/0004_submit.sql. The definition is kept as jsonb
// writes it: numbers keep their digits, but if a field is there twice only the last one is left.
type Intake struct{ store *Store }

// NewIntake uses the store's connections.
func NewIntake(store *Store) *Intake { return &Intake{store} }

// $1 shards, NULL for all, $2 the id to begin before, $3 limit, $4 namespace, empty for all. readRefused
// needs a namespace, so that the server finds it by the index.
const (
	intakeRows = `
SELECT id, namespace, at, body, reason FROM carillon.intake
WHERE ($1::int[] IS NULL OR shard = ANY($1::int[])) AND id < $2::bigint `
	anyNamespace = `AND ($4::text = '' OR namespace = $4::text) `
)

var (
	// By intake_left.
	readWaiting = statement{
		"read_waiting", intakeRows + anyNamespace + `AND state = 0 ORDER BY id LIMIT $3::int`,
	}
	// By intake_pkey.
	readAllRefused = statement{
		"read_all_refused", intakeRows + anyNamespace + `AND state = 1 ORDER BY id DESC LIMIT $3::int`,
	}
	// By intake_refused.
	readRefused = statement{
		"read_refused",
		intakeRows + `AND namespace = $4::text AND state = 1 ORDER BY id DESC LIMIT $3::int`,
	}
)

// Submissions goes by the ids, which rise with time. A long transaction may still leave a job whose id is
// before those already seen.
func (n *Intake) Submissions(
	ctx context.Context, q carillon.SubmissionQuery,
) (found []carillon.Submission, err error) {
	read := &readWaiting
	switch {
	case q.Refused && q.Namespace != "":
		read = &readRefused
	case q.Refused:
		read = &readAllRefused
	}
	var shards []byte
	if q.Shards != nil {
		list := make([]int32, len(q.Shards))
		for i, shard := range q.Shards {
			list[i] = int32(shard)
		}
		shards = int4Array(list)
	}
	err = n.store.read(ctx, call{
		read,
		[][]byte{
			shards, int8Param(cmp.Or(int64(q.Before), math.MaxInt64)),
			int4Param(cmp.Or(q.Limit, carillon.DefaultLimit)), textParam(q.Namespace),
		},
		func(r *row) error {
			found = append(found, carillon.Submission{
				ID: carillon.JobID(r.int()), Namespace: r.name(), At: carillon.Time(r.int()),
				Body: r.bytes(), Reason: r.text(),
			})
			return nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("read the intake: %w", err)
	}
	return found, nil
}

// $1 ids
var admitIntake = statement{
	"admit_intake", `DELETE FROM carillon.intake WHERE id = ANY($1::bigint[]) AND state = 0`,
}

// $1 ids, $2 reasons
var refuseIntake = statement{"refuse_intake", `
UPDATE carillon.intake SET state = 1, reason = ($2::text[])[array_position($1::bigint[], id)]
WHERE id = ANY($1::bigint[]) AND state = 0`}

// $1 namespaces, $2 the first id to keep. By intake_refused.
var forgetRefusals = statement{"forget_refusals", `
DELETE FROM carillon.intake WHERE state = 1 AND namespace = ANY($1::text[]) AND id < $2::bigint`}

// refusalsKept is the default time for which dead letters are kept.
const refusalsKept = 90 * 24 * time.Hour

// Acknowledge also forgets old refusals of the namespaces that get new ones.
func (n *Intake) Acknowledge(
	ctx context.Context, admitted []carillon.JobID, refused []carillon.Submission,
) error {
	calls := []call{{statement: &admitIntake, params: [][]byte{int8Array(admitted)}}}
	if len(refused) > 0 {
		var ids []carillon.JobID
		var reasons, namespaces []string
		for i := range refused {
			ids, reasons, namespaces = append(ids, refused[i].ID), append(reasons, refused[i].Reason), append(
				namespaces, refused[i].Namespace,
			)
		}
		first := idgen.First(carillon.Now().Add(-refusalsKept))
		calls = append(calls,
			call{statement: &refuseIntake, params: [][]byte{int8Array(ids), textArray(reasons)}},
			call{
				statement: &forgetRefusals, params: [][]byte{textArray(namespaces), int8Param(int64(first))},
			})
	}
	if err := n.store.beside(ctx, calls...); err != nil {
		return fmt.Errorf("settle %d jobs of the intake: %w", len(admitted)+len(refused), err)
	}
	return nil
}
