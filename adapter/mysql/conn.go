package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"github.com/go-sql-driver/mysql"

	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// conn is a connection for the duration of a call. It uses the driver directly: database/sql would convert
// every value of every row.
type conn struct {
	store *Store
	ctx   context.Context
	conn  driverConn
	names sqlcommon.Names
}

type driverConn interface {
	driver.ExecerContext
	driver.QueryerContext
}

// use runs a function on a connection that no other call uses meanwhile.
func (s *Store) use(ctx context.Context, f func(l *conn) error) error {
	return s.useOf(ctx, s.others, f)
}

// useSoon is use for calls that must not wait until other calls have read.
func (s *Store) useSoon(ctx context.Context, f func(l *conn) error) error {
	return s.useOf(ctx, s.writers, f)
}

func (s *Store) useOf(ctx context.Context, pool *sql.DB, f func(l *conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	within, cancel := context.WithTimeoutCause(ctx, s.timeout, errTimeout)
	defer cancel()
	err := s.connect(within, pool, f)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case within.Err() != nil:
		return context.Cause(within)
	}
	return err
}

// connect is use without a timeout.
func (s *Store) connect(ctx context.Context, pool *sql.DB, f func(l *conn) error) error {
	taken, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer taken.Close()
	return taken.Raw(func(c any) error { return f(&conn{s, ctx, c.(driverConn), map[string]string{}}) })
}

var errTimeout = errors.New("the database did not answer in time")

// exec runs the statements of a packet.
func (l *conn) exec(packet []byte) error {
	_, err := l.conn.ExecContext(l.ctx, string(packet), nil)
	return err
}

// query passes the rows of an answer to a function.
func (l *conn) query(each func(r row) error, query string, args ...any) error {
	rows, err := l.conn.QueryContext(l.ctx, string(appendSQL(nil, query, args...)), nil)
	if err != nil {
		return err
	}
	r := row{l, make([]driver.Value, len(rows.Columns()))}
	for {
		err := rows.Next(r.values)
		if errors.Is(err, io.EOF) {
			return rows.Close()
		}
		if err == nil {
			err = each(r)
		}
		if err != nil {
			return errors.Join(err, rows.Close())
		}
	}
}

// view runs a function that sees one state of all tables from its first query to its last. If partitions were
// changed after that state, view runs the function once more, so the function must begin afresh.
func (s *Store) view(ctx context.Context, f func(l *conn) error) error {
	return s.use(ctx, func(l *conn) error {
		err := l.view(f)
		if number(err) == tableChanged {
			err = l.view(f)
		}
		return err
	})
}

// view is the same on a connection that the caller uses already.
func (l *conn) view(f func(l *conn) error) error {
	const begin = `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
  START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY`
	if err := l.exec([]byte(begin)); err != nil {
		return err
	}
	return l.end(f(l))
}

// end ends a transaction that wrote nothing, or whose statements failed. If the rollback fails too, the
// connection is not used again.
func (l *conn) end(err error) error {
	if l.exec([]byte(`ROLLBACK`)) != nil {
		return errors.Join(err, driver.ErrBadConn)
	}
	return err
}

// row is a row of an answer. It is valid until the next row is read.
type row struct {
	conn   *conn
	values []driver.Value
}

// int reads a number; NULL is 0.
func (r row) int(column int) int64 {
	n, _ := r.values[column].(int64)
	return n
}

func (r row) bool(column int) bool { return r.int(column) != 0 }

// bytes reads bytes; NULL is nil.
func (r row) bytes(column int) []byte {
	b, _ := r.values[column].([]byte)
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

func (r row) text(column int) string {
	b, _ := r.values[column].([]byte)
	return string(b)
}

// name reads a text that many rows share, without allocating it again.
func (r row) name(column int) string {
	b, _ := r.values[column].([]byte)
	return r.conn.names.Of(b)
}

// The numbers of the server's errors.
const (
	diskFull          = 1021
	writeFailed       = 1026
	engineFailed      = 1030
	noRightToDatabase = 1044
	duplicate         = 1062
	tableFull         = 1114 // what InnoDB says of a full disk
	noRightToTable    = 1142
	lockTimeout       = 1205
	deadlock          = 1213
	noRight           = 1227
	tableChanged      = 1412
	outOfRange        = 1690 // see mustBe
)

// refused says that the account does not have the right.
func refused(err error) bool {
	n := number(err)
	return n == noRightToDatabase || n == noRightToTable || n == noRight
}

func number(err error) uint16 {
	if failed := (*mysql.MySQLError)(nil); errors.As(err, &failed) {
		return failed.Number
	}
	return 0
}

// tried adds to an error what was tried.
func tried(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
