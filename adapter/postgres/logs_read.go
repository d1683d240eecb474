package postgres

import (
	"cmp"
	"context"
	"fmt"

	"github.com/carillon-run/carillon"
)

// readPieces is how many pieces are read at a time: 2 MiB of text, or less. The statements have the number in
// their text, because the planner must know that it is small.
const readPieces = 32

// inOrder makes the planner read in the order of an index, even if there seem to be so few rows that sorting
// them is as good.
var inOrder = statement{"in_order", `SELECT set_config('enable_sort', 'off', true)`}

// visible is the condition for pieces that the last trim has kept.
const visible = `CASE WHEN keep = 0 THEN written >= (SELECT before FROM carillon.log_horizon WHERE one)
    ELSE written + keep >= (SELECT at FROM carillon.log_horizon WHERE one) END`

// $1 namespace, $2 due, $3 job, $4 attempt and $5 offset to read on after, $6..$8 attempt, first and lines of
// the piece before. By the primary key.
var readLog = statement{"read_log", `
SELECT attempt, first, lines, body FROM carillon.log
WHERE namespace = $1::text AND due = $2::bigint AND job = $3::bigint
  AND (attempt, first, lines) > ($6::int, $7::bigint, $8::int)
  AND (attempt > $4::int OR first + lines > $5::bigint + 1)
  AND ` + visible + `
ORDER BY attempt, first, lines LIMIT 32`}

// beforeNotice is an offset before all lines of an attempt: its notice has offset -1.
const beforeNotice = -2

// defaultLines is the limit of a query without one: a log can be larger than memory.
const defaultLines = 1000

func (l *Logs) Read(ctx context.Context, q carillon.LogQuery) (lines []carillon.Line, err error) {
	limit, after := cmp.Or(q.Limit, defaultLines), max(q.AfterOffset, beforeNotice)
	next := piece{attempt: q.AfterAttempt, first: after - pieceLines}
	attempt, offset := q.AfterAttempt, after // of the last line taken; pieces that were sent again overlap
	for {
		var pieces []piece
		err := l.store.read(ctx, call{statement: &inOrder}, call{&readLog, [][]byte{
			textParam(q.Namespace), int8Param(int64(q.Run.Due)), int8Param(int64(q.Run.Job)),
			int4Param(int(q.AfterAttempt)), int8Param(after),
			int4Param(int(next.attempt)), int8Param(next.first), int4Param(int(next.lines)),
		}, func(r *row) error {
			pieces = append(pieces, piece{
				attempt: int32(r.int()), first: r.int(), lines: int32(r.int()), body: r.bytes(),
			})
			return nil
		}})
		for i := 0; i < len(pieces) && err == nil; i++ {
			p := &pieces[i]
			if p.attempt != attempt {
				attempt, offset = p.attempt, beforeNotice
			}
			err = l.lines(p, func(line carillon.Line) {
				if line.Offset > offset && len(lines) < limit {
					lines, offset = append(lines, line), line.Offset
				}
			})
		}
		if err != nil {
			return nil, fmt.Errorf("read log of %s: %w", q.Run, err)
		}
		if len(pieces) < readPieces || len(lines) == limit {
			return lines, nil
		}
		next = pieces[len(pieces)-1]
	}
}

// lines calls f for the lines of a piece.
func (l *Logs) lines(p *piece, f func(carillon.Line)) error {
	heads, texts, err := l.unpack(p.body)
	if err != nil {
		return err
	}
	offset := p.first
	return eachLine(heads, texts, func(at carillon.Time, stream string, text []byte) {
		f(carillon.Line{At: at, Stream: stream, Text: string(text), Attempt: p.attempt, Offset: offset})
		offset++
	})
}
