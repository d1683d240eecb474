package sqlite

import (
	"zombiezen.com/go/sqlite"
)

// statement is a prepared statement of the writer. It remembers the bound values, because SQLite keeps them
// from one execution to the next: most values of a row are the same as in the row before, and binding them
// again would cost a tenth of the write.
type statement struct {
	conn  *sqlite.Conn
	stmt  *sqlite.Stmt
	bound []value // by parameter, from 1
}

// value is the value of a parameter.
type value struct {
	kind kind
	n    int64
	s    string
}

type kind uint8

const (
	unknown kind = iota
	null
	integer
	text
)

func (st *statement) prepare(conn *sqlite.Conn, query string) (err error) {
	st.conn = conn
	if st.stmt, err = conn.Prepare(query); err != nil {
		return err
	}
	st.bound = make([]value, st.stmt.BindParamCount()+1)
	return nil
}

func (st *statement) int(param int, n int64) {
	if b := &st.bound[param]; b.kind != integer || b.n != n {
		*b = value{kind: integer, n: n}
		st.stmt.BindInt64(param, n)
	}
}

// intOrNull binds 0 as NULL.
func (st *statement) intOrNull(param int, n int64) {
	if n == 0 {
		st.null(param)
		return
	}
	st.int(param, n)
}

func (st *statement) bool(param int, is bool) {
	n := int64(0)
	if is {
		n = 1
	}
	st.int(param, n)
}

func (st *statement) text(param int, s string) {
	if b := &st.bound[param]; b.kind != text || b.s != s {
		*b = value{kind: text, s: s}
		st.stmt.BindText(param, s)
	}
}

// textOrNull binds an empty text as NULL, which costs less.
func (st *statement) textOrNull(param int, s string) {
	if s == "" {
		st.null(param)
		return
	}
	st.text(param, s)
}

func (st *statement) null(param int) {
	if b := &st.bound[param]; b.kind != null {
		*b = value{kind: null}
		st.stmt.BindNull(param)
	}
}

// bytes binds nil as NULL. It does not remember other values: it would have to keep them, and they seldom
// repeat.
func (st *statement) bytes(param int, b []byte) {
	if b == nil {
		st.null(param)
		return
	}
	st.bound[param] = value{}
	st.stmt.BindBytes(param, b)
}

// exec runs a statement to its end.
func (st *statement) exec() error {
	if _, err := st.stmt.Step(); err != nil {
		clear(st.bound) // perhaps a value could not be bound
		return err
	}
	return st.stmt.Reset()
}

// hits runs a statement that writes one row or none, and says whether it wrote one.
func (st *statement) hits() (bool, error) {
	if err := st.exec(); err != nil {
		return false, err
	}
	return st.conn.Changes() > 0, nil
}

// one returns the number that a statement finds, 0 if it finds none.
func (st *statement) one() (n int64, err error) {
	found, err := st.stmt.Step()
	if err != nil {
		return 0, err
	}
	if found {
		n = st.stmt.ColumnInt64(0)
	}
	return n, st.stmt.Reset()
}
