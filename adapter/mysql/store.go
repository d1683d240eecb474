package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
	"github.com/go-sql-driver/mysql"
)

// Config says how a store is opened. The zero value works.
type Config struct {
	// KeepSchema leaves the schema as it is: Open refuses a schema of another version instead of migrating
	// it, and history and logs get no partitions and lose none. The account then needs no right to change
	// tables.
	KeepSchema bool
	// Writers is how many commits and coordinator calls run at once, each on its own connection: a beat must
	// not wait for lists. Default 6.
	Writers int
	// Connections is how many other calls run at once. Default 10.
	Connections int
	// Timeout is how long a call can take before the server counts as unreachable. Default 30 s.
	Timeout time.Duration
	// Logger gets one warning if the account has no right to change partitions. Default slog.Default().
	Logger *slog.Logger
}

// Store is a carillon.Store in a database.
type Store struct {
	writers *sql.DB
	others  *sql.DB
	timeout time.Duration
	keep    bool
	buffers sync.Pool // of *[]byte
	forget  forgetter
	wary    atomic.Int32 // how many more commits are lined

	maxScan, bulk, bulkPieces int

	history, log partitions
	logger       *slog.Logger
	warn         sync.Once
}

var _ carillon.Store = (*Store)(nil)

// Open connects to a database, mysql://user:password@host:port/database, and brings its schema up to date;
// mariadb: is the same. With ?tls=true the connection is encrypted and the server's certificate is checked;
// tls=skip-verify and tls=preferred ask for less.
func Open(ctx context.Context, address string, cfg Config) (*Store, error) {
	timeout := cmp.Or(cfg.Timeout, 30*time.Second)
	settings, err := parse(address, timeout)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(settings)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", settings.Addr, err)
	}
	s := &Store{
		writers: pool(connector, cmp.Or(cfg.Writers, 6)),
		others:  pool(connector, cmp.Or(cfg.Connections, 10)),
		timeout: timeout, keep: cfg.KeepSchema,
		maxScan: sqlcommon.MaxScan, bulk: bulk, bulkPieces: bulkPieces,
		history: partitions{fixed: cfg.KeepSchema}, log: partitions{fixed: cfg.KeepSchema},
		logger: cmp.Or(cfg.Logger, slog.Default()),
	}
	if err := s.prepare(ctx, settings); err != nil {
		s.Close()
		return nil, fmt.Errorf("open %s/%s: %w", settings.Addr, settings.DBName, err)
	}
	return s, nil
}

func pool(connector driver.Connector, connections int) *sql.DB {
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return db
}

// prepare creates the schema, and the partitions of the next days before anything is written.
func (s *Store) prepare(ctx context.Context, settings *mysql.Config) error {
	if err := s.migrate(ctx, settings); err != nil {
		return err
	}
	now := carillon.TimeOf(time.Now())
	if err := s.addDays(ctx, now); err != nil {
		return err
	}
	if err := s.addLogDays(ctx, now); err != nil || s.keep {
		return err
	}
	// It has no time limit: there can be a million letters of an older version.
	return s.connect(ctx, s.others, func(l *conn) error {
		_, err := l.alone("forgetting", 0, func() error { return s.tendGroups(l) })
		return err
	})
}

// Close closes the connections. Committed changes are safe without it.
func (s *Store) Close() error { return errors.Join(s.writers.Close(), s.others.Close()) }

// parse turns an address into the driver's settings.
func parse(address string, timeout time.Duration) (*mysql.Config, error) {
	u, err := url.Parse(address)
	if err != nil {
		// The error leaves out the address, because that has the password.
		return nil, fmt.Errorf("the address of the database is not a URL: %w", err.(*url.Error).Err)
	}
	database := strings.TrimPrefix(u.Path, "/")
	if u.Scheme != "mysql" && u.Scheme != "mariadb" || u.Hostname() == "" || database == "" ||
		strings.Contains(database, "/") {
		return nil, fmt.Errorf(
			"%q is not the address of a database: want mysql://user:password@host:port/database",
			u.Redacted(),
		)
	}
	c := mysql.NewConfig()
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.Net, c.Addr, c.DBName = "tcp", u.Hostname()+":"+cmp.Or(u.Port(), "3306"), database
	if strings.Contains(u.Hostname(), ":") {
		c.Addr = "[" + u.Hostname() + "]:" + cmp.Or(u.Port(), "3306")
	}
	for key, values := range u.Query() {
		if key != "tls" {
			return nil, fmt.Errorf("%q is not an option of the address of the database: want tls", key)
		}
		c.TLSConfig = values[0]
	}
	c.MultiStatements = true
	c.RejectReadOnly = true // a server that has become a replica: connect again
	c.Timeout, c.ReadTimeout, c.WriteTimeout = min(timeout, 10*time.Second), timeout+5*time.Second, timeout+
		5*time.Second
	c.Logger = &mysql.NopLogger{} // the errors have everything it would say
	c.Params = map[string]string{
		"sql_mode": "'STRICT_ALL_TABLES'", "innodb_lock_wait_timeout": "5",
		"lock_wait_timeout": usualPatience,
	}
	return c, c.Apply(mysql.Charset("binary", ""))
}
