package postgres

import (
	"context"
)

// view reads all tables as they were at one moment, from its first statement to its last.
type view struct {
	conn  *conn
	begun bool
}

func (s *Store) view(ctx context.Context, f func(ctx context.Context, v *view) error) error {
	return s.with(ctx, s.readers, func(ctx context.Context, c *conn) error {
		v := &view{conn: c}
		err := f(ctx, v)
		if v.begun && !c.IsClosed() {
			// Nothing was written.
			end := c.do(ctx, transaction{plain: true}, call{statement: &statement{"", `ROLLBACK`}})
			if err == nil {
				err = end
			}
		}
		return err
	})
}

func (v *view) read(ctx context.Context, calls ...call) error {
	tx := transaction{plain: v.begun}
	if !v.begun {
		tx.begin, v.begun = `BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY`, true
	}
	return v.conn.do(ctx, tx, calls...)
}
