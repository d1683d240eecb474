package chaos

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"hash/crc32"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"github.com/carillon-run/carillon/porttest/server"
)

// engine is a kind of database that a cluster can share. Tests whose faults do not touch the server share one
// server, with a database for each test.
type engine struct {
	name  string
	start func(ctx context.Context, dir string, settings ...string) (*server.Server, error)
	// quick settings lose the last commits when the machine crashes; kept settings lose none when the server
	// is killed.
	quick, kept []string
	copied      []string // kept settings of a server that has a replica also need these
	create      func(ctx context.Context, server *url.URL, database string) error
	// replica starts a replica of a primary, which reads from the address of a stream.
	replica func(t *testing.T, primary *server.Server, stream string, synchronous bool) (*server.Server, pair)

	mu     sync.Mutex
	shared *server.Server
	made   atomic.Int32 // databases
}

var engines = []*engine{
	{
		name: "postgres", start: server.StartPostgres, create: createPostgres, replica: replicaOfPostgres,
		quick: []string{"fsync=off", "max_connections=600"},
		kept:  []string{"fsync=off", "max_connections=600"},
	},
	{
		name: "mariadb", start: server.StartMariaDB, create: createMariaDB, replica: replicaOfMariaDB,
		quick:  []string{"innodb_flush_log_at_trx_commit=0", "innodb_doublewrite=0", "max-connections=600"},
		kept:   []string{"innodb_flush_log_at_trx_commit=1", "max-connections=600"},
		copied: []string{"server-id=1", "log-bin=binlog"},
	},
}

// onEach runs a test on every kind of database, at the same time. The subtests are not parallel ones: those
// would wait for all other tests first.
func onEach(t *testing.T, test func(t *testing.T, e *engine)) {
	var all sync.WaitGroup
	for _, e := range engines {
		all.Go(func() { t.Run(e.name, func(t *testing.T) { test(t, e) }) })
	}
	all.Wait()
}

var everywhere = flag.Bool("everywhere", false, "every test of a cluster on every kind of database")

// onOne runs a test on one kind of database, always the same one: it is about the parts of Carillon, or a
// shorter test does the same on each kind. With -everywhere it runs on every kind.
func onOne(t *testing.T, test func(t *testing.T, e *engine)) {
	if *everywhere {
		onEach(t, test)
		return
	}
	e := engines[int(crc32.ChecksumIEEE([]byte(t.Name())))%len(engines)]
	t.Run(e.name, func(t *testing.T) { test(t, e) })
}

// own starts a server to which a test can do faults.
func (e *engine) own(t *testing.T, settings ...string) *server.Server {
	t.Helper()
	e.mu.Lock() // two servers that start at once would disturb each other
	s, err := e.start(context.Background(), "", append(slices.Clone(e.kept), settings...)...)
	e.mu.Unlock()
	server.Need(t, err)
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// database makes an empty database on the shared server and returns its URL.
func (e *engine) database(t *testing.T) string {
	t.Helper()
	s, err := e.share()
	server.Need(t, err)
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("chaos%d", e.made.Add(1))
	if err := e.create(t.Context(), at, name); err != nil {
		t.Fatalf("create database %s: %v", name, err)
	}
	at.Path = "/" + name
	return at.String()
}

func (e *engine) share() (_ *server.Server, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.shared == nil {
		e.shared, err = e.start(context.Background(), "", e.quick...)
	}
	return e.shared, err
}

func (e *engine) stop() {
	if e.shared != nil {
		_ = e.shared.Stop()
	}
}

func createPostgres(ctx context.Context, server *url.URL, database string) error {
	conn, err := pgx.Connect(ctx, server.String())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "CREATE DATABASE "+database)
	return err
}

func createMariaDB(ctx context.Context, server *url.URL, database string) error {
	db, err := openMariaDB(server)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, "CREATE DATABASE "+database)
	return err
}

func openMariaDB(server *url.URL) (*sql.DB, error) {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName = server.User.Username(), "tcp", server.Host, strings.TrimPrefix(
		server.Path, "/",
	)
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}
