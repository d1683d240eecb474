package postgres

import (
	"fmt"
	"strings"
)

// statement is SQL and the name it is prepared under.
type statement struct {
	name string
	sql  string
}

// call is a statement with its parameters, all in binary form. row, if it is set, gets each row of the
// result.
type call struct {
	*statement
	params [][]byte
	row    func(r *row) error
}

// rowStatement writes or locks many rows. In its SQL, ROWS stands for a table with these columns, and COUNT
// for the number of its rows.
type rowStatement struct {
	statement
	columns []column
	counted bool
}

var columnTypes = map[string]struct {
	name string
	oid  uint32
	size int
}{
	"int8": {"bigint", oidInt8, 8}, "int4": {"integer", oidInt4, 4}, "int2": {"smallint", oidInt2, 2},
	"bool": {"boolean", oidBool, 1}, "text": {"text", oidText, 0}, "bytea": {"bytea", oidBytea, 0},
}

// forRows makes a statement. columns has a name and a type for each column, and "key" for a column that is
// never the same for all rows.
//
// The SQL joins ROWS with a table by a key, and compares the first column of the key in the form k =
// ANY(ARRAY[x.k]). If the last VACUUM saw no live row in the table, but could not remove the dead ones
// because an old transaction might read them, the planner assumes that the table stays empty however much it
// grows. With k = x.k it would then read the whole index, because that would come in a useful order, and
// compare each row of the table with each of ROWS: a hundred times slower. Nothing is ordered by ANY, so it
// looks up the key of each row of ROWS.
func forRows(name, columns, sql string) *rowStatement {
	s := &rowStatement{statement: statement{name: name}, counted: strings.Contains(sql, "COUNT")}
	var arrays, chosen []string
	param := 0
	for spec := range strings.SplitSeq(columns, ",") {
		words := strings.Fields(spec)
		kind := columnTypes[words[1]]
		c := column{oid: kind.oid, size: kind.size, key: len(words) > 2}
		param++
		arrays = append(arrays, fmt.Sprintf("unnest($%d::%s[]) AS %s", param, kind.name, words[0]))
		if c.key {
			chosen = append(chosen, "u."+words[0])
		} else {
			param++
			chosen = append(
				chosen, fmt.Sprintf("coalesce(u.%s, $%d::%s) AS %s", words[0], param, kind.name, words[0]),
			)
		}
		s.columns = append(s.columns, c)
	}
	// Side by side in a SELECT, the arrays are unpacked in step. In FROM each would first become a separate
	// table.
	rows := fmt.Sprintf(
		"(SELECT %s FROM (SELECT %s) u)", strings.Join(chosen, ", "), strings.Join(arrays, ", "),
	)
	s.sql = strings.NewReplacer("ROWS", rows, "COUNT", fmt.Sprintf("$%d::bigint", param+1)).Replace(sql)
	return s
}

// rows are the rows for one statement, collected column by column. They are reused.
type rows struct {
	of      *rowStatement
	columns []column
	count   int
	at      int // the column that is written next
	values  [][]byte
}

func newRows(of *rowStatement) rows {
	r := rows{of: of, columns: append([]column(nil), of.columns...)}
	r.reset()
	return r
}

func (r *rows) reset() {
	r.count = 0
	for i := range r.columns {
		r.columns[i].reset()
	}
}

// begin begins a row: its values follow in the order of the columns.
func (r *rows) begin() { r.count, r.at = r.count+1, 0 }

func (r *rows) int(v int64) { r.columns[r.at].int(v); r.at++ }

// intOrNull writes NULL for 0.
func (r *rows) intOrNull(v int64) {
	r.intUnless(0, v)
}

// intUnless writes NULL for the usual value.
func (r *rows) intUnless(usual, v int64) {
	if v == usual {
		r.null()
		return
	}
	r.int(v)
}

func (r *rows) bool(v bool) { r.columns[r.at].int(int64(bit(v))); r.at++ }

func (r *rows) text(s string) {
	add(&r.columns[r.at], clean(s))
	r.at++
}

// textOrNull writes NULL for an empty text.
func (r *rows) textOrNull(s string) {
	if s == "" {
		r.null()
		return
	}
	r.text(s)
}

// bytes writes NULL for nil.
func (r *rows) bytes(b []byte) {
	if b == nil {
		r.null()
		return
	}
	add(&r.columns[r.at], b)
	r.at++
}

func (r *rows) null() { r.columns[r.at].null(); r.at++ }

// call returns the statement with the rows collected so far.
func (r *rows) call() call {
	r.values = r.values[:0]
	for i := range r.columns {
		r.values = r.columns[i].params(r.values)
	}
	if r.of.counted {
		r.values = append(r.values, int8Param(int64(r.count)))
	}
	return call{statement: &r.of.statement, params: r.values}
}
