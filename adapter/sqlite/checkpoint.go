package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// The log is brought back into the file beside the writer, so that nobody waits for it: whenever it has grown by
// passivePages. Under constant load that alone never gets to the log's end, where it could start again; past
// blockingPages the writer itself finishes what is left.
const (
	passivePages  = 4_000  // 16 MB
	blockingPages = 32_000 // 128 MB
)

// checkpointer copies the log back on a connection of its own.
type checkpointer struct {
	conn  *sqlite.Conn
	index *os.File      // of the log
	wake  chan struct{} // capacity 1
	done  chan struct{}
	err   error // once done
}

func newCheckpointer(path string) (*checkpointer, error) {
	conn, err := open(path, sqlite.OpenReadWrite|sqlite.OpenWAL, []string{`synchronous=FULL`, `cache_size=-2048`, `wal_autocheckpoint=0`})
	if err != nil {
		return nil, err
	}
	index, err := os.Open(path + "-shm")
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &checkpointer{conn: conn, index: index, wake: make(chan struct{}, 1), done: make(chan struct{})}, nil
}

// run checkpoints whenever it is woken, until wake is closed or the disk fails.
func (c *checkpointer) run() {
	defer close(c.done)
	for range c.wake {
		if err := checkpoint(c.conn, `PASSIVE`); err != nil {
			c.err = err
			return
		}
	}
}

func (c *checkpointer) close() error {
	close(c.wake)
	<-c.done
	return errors.Join(c.conn.Close(), c.index.Close())
}

// pages says how long the log is and how much of it has not been copied. Both stand in the header of the log's index,
// which is a file shared by all connections: https://sqlite.org/walformat.html, 2.1.
func (c *checkpointer) pages() (length, pending int, err error) {
	var header [100]byte
	if _, err := c.index.ReadAt(header[:], 0); err != nil {
		return 0, 0, fmt.Errorf("read the index of the log: %w", err)
	}
	length = int(binary.NativeEndian.Uint32(header[16:]))
	copied := int(binary.NativeEndian.Uint32(header[96:]))
	return length, length - copied, nil
}

func checkpoint(conn *sqlite.Conn, mode string) error {
	if err := sqlitex.ExecuteTransient(conn, `PRAGMA wal_checkpoint(`+mode+`)`, nil); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// tend sees to the log after a commit.
func (s *Store) tend() error {
	select {
	case <-s.checkpointer.done:
		return s.checkpointer.err
	default:
	}
	length, pending, err := s.checkpointer.pages()
	if err != nil {
		return err
	}
	if length >= blockingPages {
		return checkpoint(s.writer.conn, `RESTART`)
	}
	if pending >= passivePages {
		select {
		case s.checkpointer.wake <- struct{}{}:
		default:
		}
	}
	return nil
}
