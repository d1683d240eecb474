package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config is how a store is opened. The zero value is a good one.
type Config struct {
	// KeepSchema leaves the schema as it is: one that is not of this program is refused instead of migrated. Days of history
	// and of logs come and go all the same, where the database lets us.
	KeepSchema bool
	// Writers is how many writes go on at once, each on a connection of its own: two commits keep a server busy, and others
	// that write seldom must not wait for them. Default 4.
	Writers int
	// Readers is how many reads go on at once. Default 4.
	Readers int
	// Timeout is how long a call may take before the server is taken to be out of reach. Default 30 s.
	Timeout time.Duration
	// Logger hears what is no error but keeps something from being as it should. Default slog.Default().
	Logger *slog.Logger
}

// Store is a carillon.Store in a PostgreSQL database.
type Store struct {
	writers *pgxpool.Pool
	readers *pgxpool.Pool
	timeout time.Duration
	logger  *slog.Logger

	maxScan  int
	maxReach int
	flushes  sync.Pool // of *flush
	forget   forgetter
	refusal  sync.Once // says that days cannot be changed
}

var _ carillon.Store = (*Store)(nil)

// Open connects to the database and brings the schema carillon in it up to date.
func Open(ctx context.Context, url string, config Config) (*Store, error) {
	s := &Store{
		timeout: cmp.Or(config.Timeout, 30*time.Second), logger: cmp.Or(config.Logger, slog.Default()), maxScan: maxScan, maxReach: maxReach,
	}
	s.flushes.New = func() any { return newFlush() }
	var err error
	if s.writers, err = connect(url, cmp.Or(config.Writers, 4)); err != nil {
		return nil, err
	}
	if s.readers, err = connect(url, cmp.Or(config.Readers, 4)); err != nil {
		s.writers.Close()
		return nil, err
	}
	if err := s.prepare(ctx, config); err != nil {
		return nil, errors.Join(fmt.Errorf("open the database: %w", err), s.Close())
	}
	return s, nil
}

// prepare takes as long as it takes: a migration may have to write a large table anew.
func (s *Store) prepare(ctx context.Context, config Config) error {
	if err := s.migrate(ctx, config.KeepSchema); err != nil || config.KeepSchema {
		return err
	}
	s.forget.days = time.Now()
	return s.addDays(ctx)
}

// Close waits for what is under way. What was committed is safe without it.
func (s *Store) Close() error {
	s.writers.Close()
	s.readers.Close()
	return nil
}

// connect makes a pool; the first connection is made when somebody needs one.
func connect(url string, size int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the address of the database: %w", err)
	}
	config.MaxConns = int32(size)
	config.MinConns = 0
	config.AfterConnect = begin
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, 10*time.Second)
	// A peer that is gone without a word is noticed between calls, too.
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3}}
	config.ConnConfig.DialFunc = dialer.DialContext
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "carillon"
	}
	return pgxpool.NewWithConfig(context.Background(), config)
}
