package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/carillon-run/carillon"
)

// Logs keeps the output of runs in compressed pieces. Any number of nodes can append and read.
type Logs struct {
	store *Store
	packers
	days logDays
}

// NewLogs uses the store's connections.
func NewLogs(store *Store) *Logs { return &Logs{store: store} }

// These limit a piece, unless it is a single line. Reading on after a position goes back by that many lines
// at most.
const (
	pieceBytes = 64 << 10
	pieceLines = 4096
	// appendBytes is about how much one statement carries.
	appendBytes = 4 << 20
)

// piece is a row.
type piece struct {
	namespace string
	run       carillon.RunID
	attempt   int32
	first     int64
	lines     int32
	keep      int64
	body      []byte
}

func (p *piece) compare(o *piece) int {
	return cmp.Or(cmp.Compare(p.namespace, o.namespace), cmp.Compare(p.run.Due, o.run.Due),
		cmp.Compare(p.run.Job, o.run.Job),
		cmp.Compare(p.attempt, o.attempt), cmp.Compare(p.first, o.first), cmp.Compare(p.lines, o.lines))
}

// Append may have written some of the chunks when it returns an error. The caller can send all of them again:
// the same piece is kept once, and where pieces overlap every line is read once.
func (l *Logs) Append(ctx context.Context, chunks []carillon.Chunk) error {
	l.days.ahead(ctx, l.store)
	var pieces []piece
	size := 0
	for i := range chunks {
		for lines, first := chunks[i].Lines, chunks[i].Offset; len(lines) > 0; {
			n := pieceOf(lines)
			p := l.pack(&chunks[i], first, lines[:n])
			pieces, size = append(pieces, p), size+len(p.body)
			lines, first = lines[n:], first+int64(n)
			if size >= appendBytes {
				if err := l.insert(ctx, pieces); err != nil {
					return err
				}
				pieces, size = pieces[:0], 0
			}
		}
	}
	return l.insert(ctx, pieces)
}

// pieceOf returns how many of the lines go into one piece.
func pieceOf(lines []carillon.Line) int {
	size := 0
	for i := range lines {
		if size += len(lines[i].Text); i > 0 && size > pieceBytes || i == pieceLines {
			return i
		}
	}
	return len(lines)
}

func (l *Logs) pack(c *carillon.Chunk, first int64, lines []carillon.Line) piece {
	return piece{
		namespace: c.Namespace, run: c.Run, attempt: c.Attempt, first: first, lines: int32(len(lines)),
		keep: int64(carillon.Time(0).Add(max(c.Keep, 0))), body: l.packers.pack(lines),
	}
}

// A piece that is written after a trim survives that trim, whatever the clocks say.
var appendLog = forRows("append_log",
	"namespace text, due int8, job int8, attempt int4, first int8 key, lines int4, keep int8, body bytea", `
INSERT INTO carillon.log (namespace, due, job, attempt, first, lines, written, keep, body)
SELECT x.namespace, x.due, x.job, x.attempt, x.first, x.lines,
  greatest(carillon.clock(), CASE WHEN x.keep = 0 THEN h.before ELSE h.at - x.keep END), x.keep, x.body
FROM ROWS x, (SELECT * FROM carillon.log_horizon WHERE one) h
ON CONFLICT DO NOTHING`)

// insert sorts first, so that all nodes wait for each other's rows in one order.
func (l *Logs) insert(ctx context.Context, pieces []piece) error {
	if len(pieces) == 0 {
		return nil
	}
	slices.SortFunc(pieces, func(a, b piece) int { return a.compare(&b) })
	rows := newRows(appendLog)
	for _, p := range pieces {
		rows.begin()
		rows.text(p.namespace)
		rows.int(int64(p.run.Due))
		rows.int(int64(p.run.Job))
		rows.int(int64(p.attempt))
		rows.int(p.first)
		rows.int(int64(p.lines))
		rows.int(p.keep)
		rows.bytes(p.body)
	}
	insert := rows.call()
	err := l.store.beside(ctx, insert)
	for again := 0; code(err) == checkViolation && again < 5; again++ {
		err = l.store.beside(ctx, insert)
	}
	if err != nil {
		return fmt.Errorf("append %d pieces to logs: %w", len(pieces), err)
	}
	return nil
}

// checkViolation is the error of a statement that was on its way to log_other, or history_rest, while the day
// of its rows got its own partition. The next try sees the partition.
const checkViolation = "23514"
