package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-run/carillon/porttest/server"
)

// postgres is a PostgreSQL server that was started for this run.
type postgres struct{ *server.Server }

// postgresSettings are the settings that an administrator would change first; all others are the defaults.
// Every commit is on disk.
var postgresSettings = []string{"fsync=on", "synchronous_commit=on", "shared_buffers=1GB", "max_wal_size=4GB"}

func startPostgres(ctx context.Context, dir string) (engine, error) {
	s, err := server.StartPostgres(ctx, dir, postgresSettings...)
	return postgres{s}, err
}

func (p postgres) stop() error { return p.Stop() }

const aboutPostgres = `SELECT version()
  || ', ' || (SELECT string_agg(name || '=' || current_setting(name), ', ' ORDER BY name) FROM pg_settings
  WHERE name = ANY($1))`

func (p postgres) about(ctx context.Context) (about string, err error) {
	var names []string
	for _, setting := range postgresSettings {
		name, _, _ := strings.Cut(setting, "=")
		names = append(names, name)
	}
	err = onPostgres(ctx, p.URL, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, aboutPostgres, names).Scan(&about)
	})
	return about, err
}

// create also makes a checkpoint: pages that earlier scenarios left to write would slow down the next
// scenario.
func (p postgres) create(ctx context.Context, name string) (store string, err error) {
	u, err := url.Parse(p.URL)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), onPostgres(ctx, p.URL, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{name}.Sanitize()); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, `CHECKPOINT`)
		return err
	})
}

func (p postgres) drop(ctx context.Context, name string) error {
	return onPostgres(ctx, p.URL, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `DROP DATABASE `+pgx.Identifier{name}.Sanitize()+` WITH (FORCE)`)
		return err
	})
}

func (p postgres) hold(ctx context.Context, at place) (release func() error, err error) {
	conn, err := pgx.Connect(ctx, at.store)
	if err != nil {
		return nil, err
	}
	// The snapshot is taken by the first query, not by BEGIN.
	for _, sql := range []string{`BEGIN ISOLATION LEVEL REPEATABLE READ`, `SELECT count(*) FROM pg_class`} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			conn.Close(ctx)
			return nil, err
		}
	}
	return func() error {
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), `COMMIT`); err != nil {
			return fmt.Errorf("the transaction was not held to the end: %w", err)
		}
		return nil
	}, nil
}

func onPostgres(ctx context.Context, address string, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	return do(conn)
}
