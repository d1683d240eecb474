package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// readers is how many reads run at once. Reads are short, and they share few cores.
const readers = 4

// busyTime is how long the writer waits for another process that writes, or for readers when the log must
// start again.
const busyTime = 10 * time.Second

// Store is a carillon.Store in one file.
type Store struct {
	path    string
	maxScan int
	maxLog  int64

	mu     sync.Mutex // guards writer and broken
	writer *writer
	broken error // the first error after which the store refuses all writes
	forget forgetter

	idle   chan *reader
	opened int // readers, idle or not
	closed chan struct{}
	once   sync.Once
}

var _ carillon.Store = (*Store)(nil)

var errClosed = errors.New("the store is closed")

// Open opens the file, creates it if there is none, and brings its schema up to date.
func Open(path string) (*Store, error) {
	conn, err := open(path, sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenWAL, writerPragmas)
	if err != nil {
		return nil, err
	}
	conn.SetBusyTimeout(busyTime)
	s := &Store{
		path: path, maxScan: sqlcommon.MaxScan, maxLog: maxLog, idle: make(chan *reader, readers),
		closed: make(chan struct{}),
	}
	if err := migrate(conn); err != nil {
		conn.Close()
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if s.writer, err = newWriter(conn); err != nil {
		conn.Close()
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	for range readers {
		conn, err := open(path, sqlite.OpenReadWrite|sqlite.OpenWAL, readerPragmas)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.idle <- &reader{conn: conn, names: sqlcommon.Names{}}
		s.opened++
	}
	if err := s.fillFingerprints(); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), s.Close())
	}
	return s, nil
}

// The writer's cache holds the ends of the tables, where all writes go. Reads are rarer, so readers rely on
// the page cache of the operating system.
var (
	writerPragmas = []string{
		`synchronous=FULL`, `cache_size=-65536`, `temp_store=MEMORY`, `wal_autocheckpoint=4000`,
	}
	readerPragmas = []string{`query_only=ON`, `cache_size=-2048`, `temp_store=MEMORY`}
)

func open(path string, flags sqlite.OpenFlags, pragmas []string) (*sqlite.Conn, error) {
	conn, err := sqlite.OpenConn(path, flags)
	if err != nil {
		return nil, err
	}
	for _, pragma := range pragmas {
		if err := sqlitex.ExecuteTransient(conn, `PRAGMA `+pragma, nil); err != nil {
			conn.Close()
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
	}
	return conn, nil
}

// Close waits for the reads and writes in progress. Committed changes are safe without it.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		close(s.closed)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.broken = errClosed
		for range s.opened {
			err = errors.Join(err, (<-s.idle).conn.Close())
		}
		err = errors.Join(err, s.writer.conn.Close()) // the last one to close copies the log into the file
	})
	return err
}

// reader is a connection that only reads, and the strings it has seen: many rows name the same few
// namespaces, queues and workers.
type reader struct {
	conn  *sqlite.Conn
	names sqlcommon.Names
	buf   []byte
}

// read runs a function on a connection that no other call uses meanwhile. From its first statement to its
// last the function sees one view of all tables.
func (s *Store) read(ctx context.Context, f func(r *reader) error) error {
	select { // with both ready, the select below would choose at random
	case <-s.closed:
		return errClosed
	default:
	}
	var r *reader
	select {
	case r = <-s.idle:
	case <-s.closed:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.idle <- r }()
	r.conn.SetInterrupt(ctx.Done())
	err := r.exec(`BEGIN`)
	if err == nil {
		err = f(r)
	}
	r.conn.SetInterrupt(nil) // also resets statements that were left half read
	if !r.conn.AutocommitEnabled() {
		err = errors.Join(err, r.exec(`ROLLBACK`)) // nothing was written
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (r *reader) exec(query string) error {
	stmt, err := r.conn.Prepare(query)
	if err != nil {
		return err
	}
	_, err = stmt.Step()
	return err
}
