package mysql

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// Coordinator keeps sessions in a table. Its clock is the database's.
type Coordinator struct{ store *Store }

// NewCoordinator uses the store's connections.
func NewCoordinator(store *Store) *Coordinator { return &Coordinator{store} }

var _ carillon.Coordinator = (*Coordinator)(nil)

// clock is the database's time in milliseconds, the same for all of a statement. UNIX_TIMESTAMP(NOW(3)) would
// be shorter, but wrong by an hour for one hour a year if the server's time zone turns its clocks back.
const clock = `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000`

// In: a row for each of id, kind, addr, profile.
const joinSessions = `INSERT INTO session (id, kind, addr, profile, joined, beat, holds) VALUES ?`

// Join refuses all members if one of the ids exists already.
func (c *Coordinator) Join(ctx context.Context, members []carillon.Member) error {
	if len(members) == 0 {
		return nil
	}
	rows := list(members, func(b []byte, m carillon.Member) []byte {
		return appendSQL(
			b, `(?, ?, ?, ?, `+clock+`, `+clock+`, '')`, m.ID, m.Kind, m.Addr,
			sqlcommon.PackProfile(m.Profile),
		)
	})
	err := c.store.useSoon(ctx, func(l *conn) error {
		_, err := l.do(joinSessions, rows)
		return err
	})
	if number(err) == duplicate {
		err = fmt.Errorf("%w: %w", carillon.ErrConflict, err)
	}
	return tried(fmt.Sprintf("join %d sessions", len(members)), err)
}

// Beat takes many beats in one statement. Sessions are locked in the order of their ids, here and where they
// end, so two calls that wait for each other's sessions cannot deadlock.
func (c *Coordinator) Beat(ctx context.Context, beats []carillon.Beat) ([]carillon.Standing, error) {
	latest := sqlcommon.LatestBeats(beats)
	said := make([]carillon.Beat, len(latest))
	for k, i := range latest {
		said[k] = beats[i]
	}
	standings := make(map[string]carillon.Standing, len(said))
	err := c.store.useSoon(ctx, func(l *conn) error {
		for rest := said; len(rest) > 0; {
			n, err := l.beat(rest, standings)
			if err != nil {
				return err
			}
			rest = rest[n:]
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("beat for %d sessions: %w", len(beats), err)
	}
	return sqlcommon.Standings(beats, latest, standings), nil
}

// In: ids, what they hold in the same order, ids, what they heard, ids, numbers, ids, ids, numbers, ids,
// numbers. By primary key. The server compares, and does not write again what is still held. Beats without a
// number always count.
const beatSessions = `UPDATE session SET beat = ` + clock + `, holds = ELT(FIELD(id, ?), ?),
  heard = CAST(ELT(FIELD(id, ?), ?) AS SIGNED),
  number = GREATEST(number, CAST(ELT(FIELD(id, ?), ?) AS SIGNED))
WHERE id IN (?) AND (ELT(FIELD(id, ?), ?) = 0 OR CAST(ELT(FIELD(id, ?), ?) AS SIGNED) > number)`

// In: ids. By primary key.
const livingSessions = `SELECT id, number FROM session WHERE id IN (?)`

// beat takes the first n beats, as many as fit into a statement. If fewer rows have changed than there are
// ids, it reads the current rows. Two beats without a number in one millisecond change the row once, so all
// sessions may still be there. A session that is gone does not come back, so a session that is there
// afterwards was there before. A row with a higher number was there before the beat, or came right after it:
// in both cases the beat is old by now. A row with the same number has it from this beat, or from a copy that
// came by another node; so beat reads the rows before, too.
func (l *conn) beat(beats []carillon.Beat, standings map[string]carillon.Standing) (n int, err error) {
	var ids []string
	var numbers, heard []int64
	var holds [][]byte
	for size := 0; n < len(beats) && n < most && size < packetSize; n++ {
		b, packed := &beats[n], sqlcommon.PackHolds(beats[n].Holds)
		ids, numbers, heard = append(ids, b.ID), append(numbers, b.Number), append(heard, b.Heard)
		holds, size = append(holds, packed), size+len(packed)
	}
	appendNumber := func(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }
	named, numbered := texts(ids), list(numbers, appendNumber)
	before, err := l.numbers(named)
	if err != nil {
		return n, err
	}
	changed, err := l.do(
		beatSessions, named, list(holds, appendText[[]byte]), named, list(heard, appendNumber),
		named, numbered, named, named, numbered, named, numbered,
	)
	if err != nil {
		return n, err
	}
	if changed == int64(n) {
		for _, id := range ids {
			standings[id] = carillon.StandingProlonged
		}
		return n, nil
	}
	after, err := l.numbers(named)
	for i, id := range ids {
		switch number, there := after[id]; {
		case !there:
			standings[id] = carillon.StandingOver
		case numbers[i] != 0 && (number > numbers[i] || before[id] >= numbers[i]):
			standings[id] = carillon.StandingOld
		default:
			standings[id] = carillon.StandingProlonged
		}
	}
	return n, err
}

// numbers are those of the last beats of sessions that are there.
func (l *conn) numbers(named raw) (map[string]int64, error) {
	numbers := map[string]int64{}
	err := l.query(func(r row) error { numbers[r.text(0)] = r.int(1); return nil }, livingSessions, named)
	return numbers, err
}

// In: ids. By primary key.
const leaveSessions = `DELETE FROM session WHERE id IN (?)`

func (c *Coordinator) Leave(ctx context.Context, ids []string) error {
	err := c.store.useSoon(ctx, func(l *conn) error {
		for some := range slices.Chunk(slices.Sorted(slices.Values(ids)), most) {
			if _, err := l.do(leaveSessions, texts(some)); err != nil {
				return err
			}
		}
		return nil
	})
	return tried(fmt.Sprintf("leave %d sessions", len(ids)), err)
}

// In: ids, SessionTime, the time until which sessions can be ended. By primary key: the statement neither
// locks other sessions nor waits for them.
const expireSessions = `DELETE FROM session WHERE id IN (?) AND beat < ` + clock + ` - ? AND ` + clock +
	` <= ?`

// Members first reads the sessions. Then it ends, by id, those that were late, if they still are. Most of the
// time there are none.
func (c *Coordinator) Members(
	ctx context.Context, q carillon.MemberQuery,
) (members []carillon.Member, now carillon.Time, err error) {
	err = c.store.useSoon(ctx, func(l *conn) (err error) {
		var late []string
		members, late, now, err = l.members(&q)
		if err != nil || q.Expire == 0 || len(late) == 0 {
			return err
		}
		for some := range slices.Chunk(late, most) {
			if _, err := l.do(
				expireSessions, texts(some), carillon.SessionTime.Milliseconds(), int64(q.Expire),
			); err != nil {
				return err
			}
		}
		members, _, now, err = l.members(&q)
		return err
	})
	return members, now, tried("list sessions", err)
}

// Out: the time, a session, and whether it is late. Where there is no session, there is a row with the time
// alone.
const (
	sessionColumns = `SELECT ` + clock + `, id, kind, addr, profile, joined, beat, number, heard,
  beat < ` + clock + ` - ?`
	sessionHolds = `, holds`
	// In: SessionTime.
	listSessions = ` FROM (SELECT 1) one LEFT JOIN session ON TRUE ORDER BY id`
	// In: SessionTime, ids. By primary key.
	readSessions = ` FROM (SELECT 1) one LEFT JOIN session ON id IN (?) ORDER BY id`
)

func (l *conn) members(
	q *carillon.MemberQuery,
) (members []carillon.Member, late []string, now carillon.Time, err error) {
	columns := sessionColumns
	if q.Holds {
		columns += sessionHolds
	}
	add := func(r row) (err error) {
		now = carillon.Time(r.int(0))
		if r.values[1] == nil {
			return nil
		}
		m := carillon.Member{
			ID: r.text(1), Kind: r.name(2), Addr: r.text(3), Profile: sqlcommon.UnpackProfile(r.text(4)),
			Joined: carillon.Time(r.int(5)), Beat: carillon.Time(r.int(6)),
			Number: r.int(7), Heard: r.int(8),
		}
		if r.bool(9) {
			late = append(late, m.ID)
		}
		if q.Holds {
			m.Holds, err = sqlcommon.UnpackHolds(r.bytes(10))
		}
		members = append(members, m)
		return err
	}
	silence := carillon.SessionTime.Milliseconds()
	if len(q.IDs) == 0 {
		err = l.query(add, columns+listSessions, silence)
		return members, late, now, err
	}
	for some := range slices.Chunk(slices.Compact(slices.Sorted(slices.Values(q.IDs))), most) {
		if err := l.query(add, columns+readSessions, silence, texts(some)); err != nil {
			return nil, nil, 0, err
		}
	}
	return members, late, now, nil
}

// A statement does not lock rows that it looks for and does not find, so other calls can write them.
const readCommitted = `SET TRANSACTION ISOLATION LEVEL READ COMMITTED; `

// do runs a statement as a separate transaction, again if other transactions were in the way, and says how
// many rows it has changed.
func (l *conn) do(statement string, args ...any) (changed int64, err error) {
	packet := string(appendSQL([]byte(readCommitted), statement, args...))
	for try := 1; ; try++ {
		result, err := l.conn.ExecContext(l.ctx, packet, nil)
		if err == nil {
			return result.RowsAffected()
		}
		if !inTheWay(err) || try == maxTries {
			return 0, err
		}
		if err := l.pause(try); err != nil {
			return 0, err
		}
	}
}
