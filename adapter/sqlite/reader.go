package sqlite

import (
	"zombiezen.com/go/sqlite"
)

// rows runs a query and passes each row to a function until the function returns false.
func (r *reader) rows(
	query string, bind func(*sqlite.Stmt), row func(*sqlite.Stmt) (more bool, err error),
) error {
	stmt, err := r.conn.Prepare(query)
	if err != nil {
		return err
	}
	bind(stmt)
	for {
		found, err := stmt.Step()
		if err != nil {
			return err
		}
		if !found {
			return stmt.Reset()
		}
		more, err := row(stmt)
		if err != nil || !more {
			if undone := stmt.Reset(); err == nil {
				err = undone
			}
			return err
		}
	}
}

// name reads a text that many rows share, without allocating it again.
func (r *reader) name(stmt *sqlite.Stmt, column int) string {
	n := stmt.ColumnLen(column)
	if n == 0 {
		return ""
	}
	if cap(r.buf) < n {
		r.buf = make([]byte, max(n, 256))
	}
	b := r.buf[:n]
	stmt.ColumnBytes(column, b)
	return r.names.Of(b)
}

// blob reads bytes; NULL is nil.
func blob(stmt *sqlite.Stmt, column int) []byte {
	if stmt.ColumnIsNull(column) {
		return nil
	}
	b := make([]byte, stmt.ColumnLen(column))
	stmt.ColumnBytes(column, b)
	return b
}

// bindText binds a text that is often empty; NULL costs less than an empty one.
func bindText(stmt *sqlite.Stmt, param int, s string) {
	if s == "" {
		stmt.BindNull(param)
		return
	}
	stmt.BindText(param, s)
}
