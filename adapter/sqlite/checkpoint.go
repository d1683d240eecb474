package sqlite

import (
	"fmt"
	"os"

	"github.com/carillon-run/carillon"
	"zombiezen.com/go/sqlite/sqlitex"
)

// maxLog is the length that the write-ahead log can reach. SQLite copies the log back into the file after
// every 16 MB (see writerPragmas) and then starts it again, but not while a reader reads from it. If readers
// follow each other without a gap, the writer waits for them at this length.
const maxLog = 128 << 20

// tend truncates the log after a commit if it is too long. The commit stands whatever happens here; but a
// disk that fails now would fail the next commit too.
func (s *Store) tend() {
	info, err := os.Stat(s.path + "-wal")
	if err != nil || info.Size() < s.maxLog {
		return
	}
	if err := sqlitex.ExecuteTransient(s.writer.conn, `PRAGMA wal_checkpoint(TRUNCATE)`, nil); err != nil &&
		breaks(err) {
		s.broken = fmt.Errorf(
			"%w: the store takes no more writes after: checkpoint: %w", carillon.ErrPermanent, err,
		)
	}
}
