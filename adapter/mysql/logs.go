package mysql

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-run/carillon"
)

// Logs is a carillon.LogStore in a table with a partition for every day. Any number of nodes can use it at
// once.
type Logs struct {
	store *Store
	press press
}

// NewLogs uses the store's connections.
func NewLogs(store *Store) *Logs { return &Logs{store: store} }

var _ carillon.LogStore = (*Logs)(nil)

// In: a row for each piece. If the key exists already, the longer piece stays. The assignments compare the
// column lines, so it is assigned last. After a dot a word is a name, even if it is a keyword of the server.
const insertPieces = `INSERT INTO log (namespace, due, job, attempt, first, log.lines, keep, written, body)
  VALUES ?
ON DUPLICATE KEY UPDATE
	keep = IF(VALUES(log.lines) > log.lines, VALUES(keep), keep),
	written = IF(VALUES(log.lines) > log.lines, VALUES(written), written),
	body = IF(VALUES(log.lines) > log.lines, VALUES(body), body),
	log.lines = GREATEST(VALUES(log.lines), log.lines)`

// Append can have written some of the chunks when it returns an error. The caller can send all of them again.
//
// Append cuts chunks into pieces. A piece that is sent twice has the same key and is stored once. If lines
// are sent again in other portions, pieces overlap, and reading passes over the lines it has seen.
func (logs *Logs) Append(ctx context.Context, chunks []carillon.Chunk) error {
	err := logs.store.use(ctx, func(l *conn) error {
		var rows []byte
		n := 0
		flush := func() error {
			if n == 0 {
				return nil
			}
			_, err := l.do(insertPieces, raw(rows))
			rows, n = rows[:0], 0
			return err
		}
		for p := range pieces(chunks) {
			body, err := logs.press.pack(p.lines)
			if err != nil {
				return err
			}
			if n > 0 {
				rows = append(rows, ',')
			}
			rows = appendSQL(rows, `(?, ?, ?, ?, ?, ?, ?, `+clock+`, ?)`,
				p.namespace, p.run.Due, p.run.Job, p.attempt, p.offset, len(p.lines), millis(p.keep), body)
			if n++; n == most || len(rows) > packetSize {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		return flush()
	})
	return tried(fmt.Sprintf("append %d chunks to logs", len(chunks)), err)
}

// millis rounds up: no piece is kept for less time than its chunk asks for.
func millis(keep time.Duration) int64 { return int64(carillon.Time(0).Add(max(keep, 0))) }

// position is the place of a line in the output of a run.
type position struct {
	attempt int32
	offset  int64
}

func (p position) less(o position) bool {
	return p.attempt < o.attempt || p.attempt == o.attempt && p.offset < o.offset
}

// defaultLines is the limit of a query that sets none.
const defaultLines = 1000

// How many pieces are read at a time: few at first, because they can have all the wanted lines, and then
// more, because they can have one line each. This is 4 MiB of text at most, except for very long lines.
const (
	fewPieces  = 4
	somePieces = 64
)

func (logs *Logs) Read(ctx context.Context, q carillon.LogQuery) (lines []carillon.Line, err error) {
	if q.Limit <= 0 {
		q.Limit = defaultLines
	}
	err = logs.store.use(ctx, func(l *conn) (err error) {
		lines, err = logs.read(l, q)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read log of %s: %w", q.Run, err)
	}
	return lines, nil
}

// In: namespace, due, job; the position after which pieces begin; the position beyond which they reach; how
// many. A range of the primary key, in one partition.
const readPieces = `SELECT attempt, first, log.lines, body FROM log
WHERE namespace = ? AND due = ? AND job = ?
	AND (attempt > ? OR attempt = ? AND first > ?)
	AND (attempt > ? OR attempt = ? AND first + log.lines - 1 > ?)
ORDER BY attempt, first LIMIT ?`

func (logs *Logs) read(l *conn, q carillon.LogQuery) (lines []carillon.Line, err error) {
	after := position{q.AfterAttempt, q.AfterOffset}
	// A piece that begins before the position can reach beyond it, but not by more lines than it has.
	begin := position{q.AfterAttempt, q.AfterOffset - maxLines}
	take := func(r row) error {
		if len(lines) == q.Limit {
			return nil
		}
		begin = position{int32(r.int(0)), r.int(1)}
		printed, err := logs.press.unpack(r.bytes(3), int(r.int(2)))
		for i, line := range printed {
			at := position{begin.attempt, begin.offset + int64(i)}
			if after.less(at) && len(lines) < q.Limit {
				line.Attempt, line.Offset = at.attempt, at.offset
				lines, after = append(lines, line), at
			}
		}
		return err
	}
	for some := fewPieces; len(lines) < q.Limit; some = min(4*some, somePieces) {
		n := 0
		err := l.query(func(r row) error { n++; return take(r) }, readPieces,
			q.Namespace, q.Run.Due, q.Run.Job, begin.attempt, begin.attempt, begin.offset,
			after.attempt, after.attempt, after.offset, some)
		if err != nil {
			return nil, err
		}
		if n < some {
			break
		}
	}
	return lines, nil
}
