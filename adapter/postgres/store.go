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
	"github.com/carillon-run/carillon/internal/sqlcommon"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config configures a store. The zero value is a good configuration.
type Config struct {
	// KeepSchema leaves the schema as it is: a schema of another version is refused instead of migrated. Days
	// of history and of logs are still added and dropped, if the role has the right to.
	KeepSchema bool
	// Writers is how many writes are in flight at once, each on its own connection: two commits keep a server
	// busy, two more can be of changes with folds, and the other, rare writes must not wait for them. Default
	// 6.
	Writers int
	// Readers is how many reads are in flight at once. Default 4.
	Readers int
	// Timeout is how long a call can take before the server counts as out of reach. Default 30 s.
	Timeout time.Duration
	// Logger is told of problems that are no errors but keep a part of the store from working as it should.
	// Default slog.Default().
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
	batches  sync.Pool // of *flush
	forget   forgetter
	refusal  sync.Once // logs that days cannot be changed
}

var _ carillon.Store = (*Store)(nil)

// Open connects to the database and brings the schema carillon in it up to date.
func Open(ctx context.Context, url string, config Config) (*Store, error) {
	s := &Store{
		timeout: cmp.Or(config.Timeout, 30*time.Second), logger: cmp.Or(config.Logger, slog.Default()),
		maxScan: sqlcommon.MaxScan, maxReach: maxReach,
	}
	s.batches.New = func() any { return newBatch() }
	var err error
	if s.writers, err = connect(url, cmp.Or(config.Writers, 6)); err != nil {
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

// prepare has no time limit: a migration may have to rewrite a large table.
func (s *Store) prepare(ctx context.Context, config Config) error {
	if err := s.migrate(ctx, config.KeepSchema); err != nil || config.KeepSchema {
		return err
	}
	s.forget.days = time.Now()
	if err := s.addDays(ctx); err != nil {
		return err
	}
	return s.fillFingerprints(ctx)
}

// Close waits for calls in flight. Committed changes are safe without it.
func (s *Store) Close() error {
	s.writers.Close()
	s.readers.Close()
	return nil
}

// connect makes a pool; a connection is made when it is first needed.
func connect(url string, size int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the address of the database: %w", err)
	}
	config.MaxConns = int32(size)
	config.MinConns = 0
	config.AfterConnect = begin
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, 10*time.Second)
	// Keep-alives notice a dead peer also between calls.
	dialer := &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3,
		},
	}
	config.ConnConfig.DialFunc = dialer.DialContext
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "carillon"
	}
	return pgxpool.NewWithConfig(context.Background(), config)
}
