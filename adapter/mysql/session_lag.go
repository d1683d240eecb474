package mysql

import (
	"context"
	"errors"
	"time"
)

// Out: milliseconds; NULL if there is no session.
const readLag = `SELECT ` + clock + ` - MAX(beat) FROM session`

// Lag says how old the data in this database can be: it is the age of the newest beat that has arrived. While
// any node is alive, that is at most one beat more than a replica is behind, and on the primary itself at
// most one beat. A difference between the clocks of the two machines adds to it.
func (s *Store) Lag(ctx context.Context) (lag time.Duration, err error) {
	err = s.use(ctx, func(l *conn) error {
		return l.query(func(r row) error {
			if r.values[0] == nil {
				return errors.New("no beat has arrived")
			}
			lag = time.Duration(max(r.int(0), 0)) * time.Millisecond
			return nil
		}, readLag)
	})
	return lag, tried("read the lag of the replica", err)
}
