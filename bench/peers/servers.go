package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-run/carillon/porttest/server"
)

// servers are the private servers of this run; nil: not needed, or could not be started.
type servers struct {
	postgres *server.Server
	redis    *redis
	failed   map[string]error
}

// postgresSettings are the settings that an administrator would change first; all others are the defaults.
// Every commit is on disk. There is room for the connections of eight processes of every scheduler.
var postgresSettings = []string{
	"fsync=on", "synchronous_commit=on", "shared_buffers=1GB", "max_wal_size=4GB", "max_connections=500",
}

// redisSettings are the usual settings of Redis where jobs must survive a crash: it can still lose the writes
// of the last second.
var redisSettings = []string{"appendonly=yes", "appendfsync=everysec", "save="}

func (b *bench) startServers(ctx context.Context) {
	b.scene = "servers"
	b.servers.failed = map[string]error{}
	if b.uses("postgres") {
		var about string
		s, err := server.StartPostgres(ctx, filepath.Join(b.dir, "postgres"), postgresSettings...)
		if err == nil {
			b.servers.postgres = s
			err = onPostgres(ctx, s.URL, func(conn *pgx.Conn) error {
				return conn.QueryRow(ctx, `SELECT version()`).Scan(&about)
			})
		}
		b.serverIs("postgres", strings.Split(about, " (")[0], postgresSettings, err)
	}
	if b.uses("redis") {
		r, err := startRedis(filepath.Join(b.dir, "redis"))
		about := ""
		if err == nil {
			b.servers.redis = r
			about, err = r.version()
		}
		b.serverIs("redis", about, redisSettings, err)
	}
}

func (b *bench) serverIs(name, about string, settings []string, err error) {
	if err != nil {
		b.servers.failed[name] = fmt.Errorf("start %s: %w", name, err)
		return
	}
	b.result.Servers[name] = about + ", " + strings.Join(settings, " ")
	b.say("%s", b.result.Servers[name])
}

func (b *bench) uses(engine string) bool {
	return slices.ContainsFunc(b.peers, func(p scheduler) bool { return p.engine == engine })
}

// serverFor is the error of the server that a scheduler needs, if that server did not start.
func (b *bench) serverFor(p scheduler) error { return b.servers.failed[p.engine] }

func (s *servers) stop() (err error) {
	if s.postgres != nil {
		err = s.postgres.Stop()
	}
	if s.redis != nil {
		s.redis.process.kill()
	}
	return err
}

// place is where a scheduler keeps its data: new and empty.
type place struct {
	engine   string
	database string // on PostgreSQL
	dir      string
	env      []string
	server   int // process that keeps it; 0: none besides the scheduler's own
}

func (b *bench) fresh(ctx context.Context, p scheduler) (at place, err error) {
	b.places++
	at = place{engine: p.engine, dir: filepath.Join(b.dir, fmt.Sprintf("place-%d", b.places))}
	if err := os.MkdirAll(at.dir, 0o700); err != nil {
		return at, err
	}
	// GOGC as the program carillon sets it for itself.
	at.env = append(os.Environ(), "DIR="+at.dir, "GOGC="+cmp.Or(os.Getenv("GOGC"), "200"))
	switch p.engine {
	case "postgres":
		at.database, at.server = fmt.Sprintf("peers_%d", b.places), b.servers.postgres.Pid()
		at.env = append(at.env, "POSTGRES="+b.databaseURL(at))
		err = b.onServer(ctx, `CREATE DATABASE `+at.database)
	case "redis":
		at.server = b.servers.redis.process.cmd.Process.Pid
		at.env = append(at.env, "REDIS="+b.servers.redis.url())
		err = b.servers.redis.empty()
	}
	return at, err
}

// discard removes a place: otherwise the server would write and clean up old data during the next
// measurement.
func (b *bench) discard(at place) error {
	// Also while the program is being stopped.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := os.RemoveAll(at.dir)
	switch at.engine {
	case "postgres":
		err = errors.Join(err, b.onServer(ctx, `DROP DATABASE IF EXISTS `+at.database+` WITH (FORCE)`))
	case "redis":
		err = errors.Join(err, b.servers.redis.empty())
	}
	return err
}

// settle makes the server do its pending work at once: later that work would slow down the next measurement.
// Redis writes a job to disk within a second.
func (b *bench) settle(ctx context.Context, at place) error {
	if at.engine != "postgres" {
		time.Sleep(time.Second)
		return nil
	}
	err := onPostgres(ctx, b.databaseURL(at), func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `VACUUM (ANALYZE)`)
		return err
	})
	return errors.Join(err, b.onServer(ctx, `CHECKPOINT`))
}

func (b *bench) databaseURL(at place) string {
	u, err := url.Parse(b.servers.postgres.URL)
	if err != nil {
		panic(err) // it is the URL of our own server
	}
	u.Path = "/" + at.database
	return u.String()
}

func (b *bench) onServer(ctx context.Context, sql string) error {
	return onPostgres(ctx, b.servers.postgres.URL, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	})
}

func onPostgres(ctx context.Context, address string, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	return do(conn)
}

// redis is a Redis server that was started for this run.
type redis struct {
	process *process
	port    int
}

func startRedis(dir string) (*redis, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("%w: apt-get install redis-server", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &redis{port: l.Addr().(*net.TCPAddr).Port}
	l.Close()
	cmd := exec.Command(
		program, "--port", strconv.Itoa(r.port), "--bind", "127.0.0.1", "--dir", dir, "--logfile",
		filepath.Join(dir, "log"),
	)
	for _, setting := range redisSettings {
		name, value, _ := strings.Cut(setting, "=")
		cmd.Args = append(cmd.Args, "--"+name, value)
	}
	if r.process, err = launch(cmd); err != nil {
		return nil, err
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err = r.ask("PING"); err == nil {
			return r, nil
		}
	}
	r.process.kill()
	return nil, err
}

func (r *redis) url() string { return fmt.Sprintf("redis://127.0.0.1:%d/0", r.port) }

// empty removes everything, on disk too, so that the server does not have to process it later.
func (r *redis) empty() error {
	for _, command := range []string{"FLUSHALL", "BGREWRITEAOF"} {
		if _, err := r.ask(command); err != nil && !strings.Contains(err.Error(), "in progress") {
			return err
		}
	}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		info, err := r.ask("INFO persistence")
		if err != nil {
			return err
		}
		if strings.Contains(info, "aof_rewrite_in_progress:0") &&
			strings.Contains(info, "aof_rewrite_scheduled:0") {
			return nil
		}
	}
	return errors.New("redis does not come to an end with writing down what it has")
}

func (r *redis) version() (string, error) {
	info, err := r.ask("INFO server")
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); ok {
			return "Redis " + v, nil
		}
	}
	return "", err
}

// ask sends one command, in the inline form that people type, and reads the answer: a line, or a text with
// its length.
func (r *redis) ask(command string) (string, error) {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", r.port), 5*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
		return "", err
	}
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(line, "-"):
		return "", fmt.Errorf("redis: %s: %s", command, line[1:])
	case strings.HasPrefix(line, "$"):
		n, err := strconv.Atoi(line[1:])
		if err != nil {
			return "", err
		}
		text := make([]byte, max(n, 0))
		for read := 0; read < len(text); {
			k, err := in.Read(text[read:])
			if err != nil {
				return "", err
			}
			read += k
		}
		return string(text), nil
	}
	return line, nil
}
