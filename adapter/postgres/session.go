package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// Coordinator keeps sessions in a table. Its clock is the database's.
type Coordinator struct{ store *Store }

// NewCoordinator uses the store's connections.
func NewCoordinator(store *Store) *Coordinator { return &Coordinator{store} }

// $1 ids, $2 kinds, $3 addresses, $4 profiles
var joinSessions = statement{"join_sessions", `
INSERT INTO carillon.session (id, kind, addr, profile, joined, beat, holds)
SELECT x.id, x.kind, x.addr, x.profile, now.ms, now.ms, ''
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) x(id, kind, addr, profile),
  (SELECT carillon.clock() AS ms) now`}

// Join refuses ids that already exist.
func (c *Coordinator) Join(ctx context.Context, members []carillon.Member) error {
	var ids, kinds, addrs, profiles []string
	for _, m := range members {
		ids, kinds, addrs = append(ids, m.ID), append(kinds, m.Kind), append(addrs, m.Addr)
		profiles = append(profiles, sqlcommon.PackProfile(m.Profile))
	}
	params := [][]byte{textArray(ids), textArray(kinds), textArray(addrs), textArray(profiles)}
	err := c.store.write(ctx, call{statement: &joinSessions, params: params})
	if code(err) == uniqueViolation {
		err = fmt.Errorf("%w: %w", carillon.ErrConflict, err)
	}
	if err != nil {
		return fmt.Errorf("join %s: %w", strings.Join(ids, ", "), err)
	}
	return nil
}

const uniqueViolation = "23505"

// $1 ids, $2 numbers, $3 holds, $4 what they heard; returns a standing for each
var beatSessions = statement{
	"beat_sessions", `SELECT carillon.beat($1::text[], $2::bigint[], $3::bytea[], $4::bigint[])`,
}

func (c *Coordinator) Beat(ctx context.Context, beats []carillon.Beat) ([]carillon.Standing, error) {
	latest := sqlcommon.LatestBeats(beats)
	var ids []string
	var numbers, heard []int64
	var holds [][]byte
	for _, i := range latest {
		b := &beats[i]
		ids, numbers, heard = append(ids, b.ID), append(numbers, b.Number), append(heard, b.Heard)
		holds = append(holds, sqlcommon.PackHolds(b.Holds))
	}
	standings := make(map[string]carillon.Standing, len(ids))
	next := 0
	err := c.store.write(ctx, call{
		&beatSessions,
		[][]byte{textArray(ids), int8Array(numbers), byteaArray(holds), int8Array(heard)},
		func(r *row) error {
			standings[ids[next]] = carillon.Standing(r.int())
			next++
			return nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("beat for %d sessions: %w", len(ids), err)
	}
	return sqlcommon.Standings(beats, latest, standings), nil
}

// $1 ids
var endSessions = statement{"end_sessions", `DELETE FROM carillon.session WHERE id = ANY($1::text[])`}

func (c *Coordinator) Leave(ctx context.Context, ids []string) error {
	if err := c.store.write(ctx, call{
		statement: &endSessions, params: [][]byte{textArray(ids)},
	}); err != nil {
		return fmt.Errorf("leave %s: %w", strings.Join(ids, ", "), err)
	}
	return nil
}

// The time, and a session with what it holds if $1 says so. Where there is no session, there is a row with
// the time alone.
const sessionColumns = `now.ms, s.id, s.kind, s.addr, s.profile, s.joined, s.beat, s.number, s.heard,
  CASE WHEN $1::bool THEN s.holds END`

// $1 whether with what they hold, $2 ids. By primary key, and listSessions all of them.
var (
	listSessions = statement{"list_sessions", `
SELECT ` + sessionColumns + ` FROM (SELECT carillon.clock() AS ms) now LEFT JOIN carillon.session s ON true
  ORDER BY s.id`}
	readSessions = statement{"read_sessions", `
SELECT ` + sessionColumns + ` FROM (SELECT carillon.clock() AS ms) now
LEFT JOIN carillon.session s ON s.id = ANY($2::text[]) ORDER BY s.id`}
)

// $1 whether with what they hold, $2 SessionTime in milliseconds, $3 until when sessions can be ended. The
// clock is read once, so a session that is too old by it was so before $3. Locked rows are skipped: such a
// session is beating at this moment, or another node is ending it. So this statement never waits for a lock,
// and cannot be part of a deadlock.
var expireSessions = statement{"expire_sessions", `
WITH now AS MATERIALIZED (SELECT carillon.clock() AS ms), ended AS (
  DELETE FROM carillon.session WHERE id = ANY(ARRAY(
    SELECT s.id FROM now, carillon.session s WHERE s.beat < now.ms - $2::bigint AND now.ms <= $3::bigint
    FOR UPDATE OF s SKIP LOCKED)) RETURNING id
)
SELECT ` + sessionColumns + ` FROM now LEFT JOIN carillon.session s ON s.id NOT IN (SELECT id FROM ended)
  ORDER BY s.id`}

// Members asks about a few members on a connection of the writers, where no call waits behind a long list:
// nodes compare their clocks by that answer.
func (c *Coordinator) Members(
	ctx context.Context, q carillon.MemberQuery,
) (members []carillon.Member, now carillon.Time, err error) {
	add := func(r *row) (err error) {
		now = carillon.Time(r.int())
		if r.values[1] == nil {
			return nil
		}
		m := carillon.Member{
			ID: r.text(), Kind: r.name(), Addr: r.text(), Profile: sqlcommon.UnpackProfile(r.text()),
			Joined: carillon.Time(r.int()), Beat: carillon.Time(r.int()), Number: r.int(), Heard: r.int(),
		}
		m.Holds, err = sqlcommon.UnpackHolds(r.next())
		members = append(members, m)
		return err
	}
	holds := boolParam(q.Holds)
	switch {
	case q.Expire != 0:
		params := [][]byte{holds, int8Param(carillon.SessionTime.Milliseconds()), int8Param(int64(q.Expire))}
		err = c.store.write(ctx, call{&expireSessions, params, add})
	case len(q.IDs) == 0:
		err = c.store.read(ctx, call{&listSessions, [][]byte{holds}, add})
	case q.Holds:
		err = c.store.read(ctx, call{&readSessions, [][]byte{holds, textArray(q.IDs)}, add})
	default:
		err = c.store.write(ctx, call{&readSessions, [][]byte{holds, textArray(q.IDs)}, add})
	}
	if err != nil {
		return nil, 0, fmt.Errorf("list sessions: %w", err)
	}
	return members, now, nil
}

// write runs calls as one transaction on a connection of the writers: each of these calls is short, and so is
// the wait for a connection.
func (s *Store) write(ctx context.Context, calls ...call) error {
	return s.with(ctx, s.writers, func(ctx context.Context, c *conn) error {
		return c.do(ctx, transaction{}, calls...)
	})
}

// beside runs calls that write as one transaction on a connection of the readers, so that no commit has to
// wait for them.
func (s *Store) beside(ctx context.Context, calls ...call) error {
	return s.with(ctx, s.readers, func(ctx context.Context, c *conn) error {
		return c.do(ctx, transaction{}, calls...)
	})
}

func byteaArray(values [][]byte) []byte {
	c := column{oid: oidBytea, key: true}
	c.reset()
	for _, v := range values {
		add(&c, v)
	}
	return c.params(nil)[0]
}
