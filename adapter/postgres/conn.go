package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// conn is a connection with what the store knows of it. It is kept with the connection.
type conn struct {
	*pgconn.PgConn
	// direct: the other end is the server itself, which keeps prepared statements. A pooler gives each
	// transaction to any of its own connections, so every statement is sent to it in full.
	direct   bool
	prepared map[string]bool
}

const connKey = "carillon"

// settings switch off plans that must not be used. If a table was empty at its last ANALYZE, or was never
// analyzed, a scan of the whole table seems cheap to the planner; the table then grows by a million rows
// before the next ANALYZE. forRows says how such a table is joined. The isolation is set so that a
// transaction that waited for a row sees the row's new value, whatever the server's default is.
var settings = statement{"", `SELECT set_config('enable_seqscan', 'off', $1::boolean),
  set_config('enable_hashjoin', 'off', $1::boolean),
  set_config('enable_mergejoin', 'off', $1::boolean), set_config('enable_bitmapscan', 'off', $1::boolean),
  set_config('plan_cache_mode', 'force_generic_plan', $1::boolean), set_config('jit', 'off', $1::boolean),
  set_config('idle_in_transaction_session_timeout', '60s', $1::boolean),
  set_config('default_transaction_isolation', 'read committed', $1::boolean)`}

// isolate sets the same isolation for a transaction that has already begun, as its first statement.
const isolate = `SET transaction_isolation = 'read committed'`

// begin makes a connection ready. The process id shows whether the connection is direct: a pooler has no
// process id of the server to tell, and makes one up.
func begin(ctx context.Context, pg *pgx.Conn) error {
	c := &conn{PgConn: pg.PgConn(), prepared: map[string]bool{}}
	var pid uint32
	err := c.do(ctx, transaction{plain: true}, call{
		statement: &statement{"", `SELECT pg_backend_pid()`},
		row: func(r *row) error {
			pid = binary.BigEndian.Uint32(r.next())
			return nil
		},
	})
	if err != nil {
		return err
	}
	if c.direct = pid == c.PID(); c.direct {
		err = c.do(ctx, transaction{plain: true}, call{
			statement: &settings, params: [][]byte{boolParam(false)},
		})
	}
	c.CustomData()[connKey] = c
	return err
}

// with runs a function on a connection of the pool.
func (s *Store) with(
	ctx context.Context, pool *pgxpool.Pool, f func(ctx context.Context, c *conn) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	pooled, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	// Release closes a connection that is in a transaction or broken.
	defer pooled.Release()
	return f(ctx, pooled.Conn().PgConn().CustomData()[connKey].(*conn))
}

// read runs calls that read. Each call has its own snapshot.
func (s *Store) read(ctx context.Context, calls ...call) error {
	return s.with(ctx, s.readers, func(ctx context.Context, c *conn) error {
		return c.do(ctx, transaction{}, calls...)
	})
}

// transaction says what is around a batch of calls. By default that is nothing: the batch is an implicit
// transaction.
type transaction struct {
	begin string // opens a transaction that outlasts the calls
	plain bool   // without settings: they are not needed, or were already made
}

// do sends calls in one go and reads the results. After an error none of them has taken effect, unless the
// connection was lost on the way.
func (c *conn) do(ctx context.Context, tx transaction, calls ...call) error {
	if c.direct {
		if err := c.prepare(ctx, calls); err != nil {
			return err
		}
	}
	var batch pgconn.Batch
	extra := 0 // results before those of the calls
	first, set := tx.begin, !c.direct && !tx.plain
	if set {
		first = cmp.Or(first, isolate)
	}
	if first != "" {
		batch.ExecParams(first, nil, nil, nil, nil)
		extra++
	}
	if set {
		batch.ExecParams(settings.sql, [][]byte{boolParam(true)}, nil, binaryForm, nil)
		extra++
	}
	for i := range calls {
		if c.direct && calls[i].name != "" {
			batch.ExecPrepared(calls[i].name, calls[i].params, binaryForm, binaryForm)
		} else {
			batch.ExecParams(calls[i].sql, calls[i].params, nil, binaryForm, binaryForm)
		}
	}
	return readResults(c.ExecBatch(ctx, &batch), extra, calls)
}

var binaryForm = []int16{1}

func readResults(results *pgconn.MultiResultReader, extra int, calls []call) (err error) {
	var shared sqlcommon.Names
	at := -extra // the call whose result is read
	for results.NextResult() {
		reader := results.ResultReader()
		for reader.NextRow() {
			if at >= 0 && calls[at].row != nil && err == nil {
				err = calls[at].row(&row{values: reader.Values(), names: &shared})
			}
		}
		if _, broken := reader.Close(); broken != nil {
			break
		}
		at++
	}
	failed := results.Close()
	if failed != nil && at >= 0 && at < len(calls) {
		failed = fmt.Errorf("%s: %w", cmp.Or(calls[at].name, calls[at].sql), failed)
	}
	if failed != nil {
		return failed
	}
	return err
}

// prepare prepares the statements that the connection has not prepared yet.
func (c *conn) prepare(ctx context.Context, calls []call) error {
	for i := range calls {
		name := calls[i].name
		if name == "" || c.prepared[name] {
			continue
		}
		if _, err := c.Prepare(ctx, name, calls[i].sql, nil); err != nil {
			return fmt.Errorf("prepare %s: %w", name, err)
		}
		c.prepared[name] = true
	}
	return nil
}

// code is the error code of PostgreSQL; empty for any other error.
func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
