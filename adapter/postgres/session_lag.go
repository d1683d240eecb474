package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The newest arrived row that says when it was written: a beat, which comes every second, or a commit. Both
// use the clock of the primary.
var readLag = statement{"read_lag", `
SELECT pg_is_in_recovery(), carillon.clock(), greatest(
  (SELECT max(beat) FROM carillon.session),
  floor(extract(epoch FROM pg_last_xact_replay_timestamp()) * 1000)::bigint)`}

// Lag is how old the data that this database shows may be; 0 if it is the primary. A replica cannot know what
// has not arrived, so this is the age of the newest data that has: while any node is alive, at most a beat
// more than the true lag. A difference between the clocks of the two machines adds to it.
func (s *Store) Lag(ctx context.Context) (time.Duration, error) {
	var replica bool
	var now, newest int64
	err := s.read(ctx, call{&readLag, nil, func(r *row) error {
		replica, now, newest = r.bool(), r.int(), r.int()
		return nil
	}})
	if err == nil && replica && newest == 0 {
		err = errors.New("nothing has arrived since it started")
	}
	if err != nil {
		return 0, fmt.Errorf("read the lag of the replica: %w", err)
	}
	if !replica {
		return 0, nil
	}
	return time.Duration(max(now-newest, 0)) * time.Millisecond, nil
}
