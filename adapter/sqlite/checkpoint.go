package sqlite

import (
	"fmt"
	"os"

	"github.com/carillon-run/carillon"
	"zombiezen.com/go/sqlite/sqlitex"
)

// maxLog is how long the write-ahead log may get. SQLite copies it back into the file after every 16 MB (see
// writerPragmas) and then starts it again, but not while somebody reads from it; should readers follow each other without
// a gap, the writer waits for them at this length.
const maxLog = 128 << 20

// tend sees to the log after a commit. The commit stands whatever happens here; but a disk that fails now would fail the
// next one too.
func (s *Store) tend() {
	info, err := os.Stat(s.path + "-wal")
	if err != nil || info.Size() < s.maxLog {
		return
	}
	if err := sqlitex.ExecuteTransient(s.writer.conn, `PRAGMA wal_checkpoint(TRUNCATE)`, nil); err != nil && breaks(err) {
		s.broken = fmt.Errorf("%w: the store takes no more writes after: checkpoint: %w", carillon.ErrPermanent, err)
	}
}
