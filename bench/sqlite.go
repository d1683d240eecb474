package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// embedded is SQLite in this process.
type embedded struct{}

func startEmbedded(context.Context, string) (engine, error) { return embedded{}, nil }

func (embedded) about(context.Context) (string, error) {
	return "SQLite " + sqlite.Version + ", journal_mode=WAL, synchronous=FULL", nil
}

func (embedded) create(context.Context, string) (string, error) { return "", nil }
func (embedded) drop(context.Context, string) error             { return nil }
func (embedded) stop() error                                    { return nil }

func (embedded) hold(context.Context, place) (func() error, error) {
	return nil, errors.New("an embedded store has no process beside its node")
}

// plain uses prepared statements in durable batches of 1000 on one connection: the limit that the engine
// sets.
func (embedded) plain(_ context.Context, at place, n int) (rate float64, err error) {
	conn, err := sqlite.OpenConn(
		filepath.Join(at.data, "plain.db"), sqlite.OpenReadWrite, sqlite.OpenCreate, sqlite.OpenWAL,
	)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	for _, pragma := range []string{
		"synchronous=FULL", "cache_size=-65536", "temp_store=MEMORY", "wal_autocheckpoint=4000",
	} {
		if err := sqlitex.ExecuteTransient(conn, "PRAGMA "+pragma, nil); err != nil {
			return 0, err
		}
	}
	if err := sqlitex.ExecuteScript(conn, plainSchema, nil); err != nil {
		return 0, err
	}
	base := time.Now().UnixMilli()
	start := time.Now()
	for i := 0; i < n; i += 1000 {
		first, last := base+int64(i), base+int64(min(i+1000, n))
		for _, step := range []func(*sqlite.Conn, int64) error{plainInsert, plainClaim, plainFinish} {
			if err := plainBatch(conn, first, last, step); err != nil {
				return 0, err
			}
		}
	}
	return float64(n) / time.Since(start).Seconds(), nil
}

const plainSchema = `
CREATE TABLE job(id INTEGER PRIMARY KEY, rev INTEGER NOT NULL, ns TEXT NOT NULL, type TEXT NOT NULL,
  payload BLOB NOT NULL);
CREATE TABLE run(due INTEGER NOT NULL, job INTEGER NOT NULL, wake INTEGER NOT NULL, rev INTEGER NOT NULL,
  attempt INTEGER NOT NULL, state INTEGER NOT NULL, queue TEXT NOT NULL, worker TEXT,
  PRIMARY KEY(due, job)) WITHOUT ROWID;
CREATE TABLE history(seq INTEGER PRIMARY KEY, job INTEGER NOT NULL, due INTEGER NOT NULL,
  started INTEGER NOT NULL, ended INTEGER NOT NULL, attempt INTEGER NOT NULL, state INTEGER NOT NULL,
  worker TEXT, type TEXT NOT NULL);
CREATE INDEX history_job ON history(job, due);`

func plainBatch(conn *sqlite.Conn, first, last int64, step func(*sqlite.Conn, int64) error) (err error) {
	end, err := sqlitex.ImmediateTransaction(conn)
	if err != nil {
		return err
	}
	defer end(&err)
	for id := first; id < last; id++ {
		if err := step(conn, id); err != nil {
			return err
		}
	}
	return nil
}

func plainExec(conn *sqlite.Conn, sql string, id int64, more []byte) error {
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return err
	}
	stmt.BindInt64(1, id)
	if more != nil {
		stmt.BindBytes(2, more)
	}
	_, err = stmt.Step()
	_ = stmt.Reset()
	return err
}

func plainInsert(conn *sqlite.Conn, id int64) error {
	if err := plainExec(conn, `INSERT INTO run VALUES(?1,?1,?1,1,0,1,'default',NULL)`, id, nil); err != nil {
		return err
	}
	return plainExec(conn, `INSERT INTO job VALUES(?1,1,'default','bench',?2)`, id, payload)
}

func plainClaim(conn *sqlite.Conn, id int64) error {
	return plainExec(
		conn, `UPDATE run SET state=2,attempt=1,rev=2,worker='w' WHERE due=?1 AND job=?1 AND rev=1`, id, nil,
	)
}

func plainFinish(conn *sqlite.Conn, id int64) error {
	if err := plainExec(conn, `DELETE FROM run WHERE due=?1 AND job=?1 AND rev=2`, id, nil); err != nil {
		return err
	}
	return plainExec(
		conn,
		`INSERT INTO history(job,due,started,ended,attempt,state,worker,type)
  VALUES(?1,?1,?1,?1,1,4,'w','bench')`,
		id, nil,
	)
}
