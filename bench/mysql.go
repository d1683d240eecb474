package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/carillon-run/carillon/porttest/server"
)

// mariaDB is a MariaDB server that was started for this run.
type mariaDB struct{ *server.Server }

// mariaDBSettings are the settings that an administrator would change first; all others are the defaults.
// Every commit is on disk.
var mariaDBSettings = []string{
	"innodb_flush_log_at_trx_commit=1", "innodb_buffer_pool_size=1G", "innodb_log_file_size=1G",
	"skip-log-bin",
}

func startMariaDB(ctx context.Context, dir string) (engine, error) {
	s, err := server.StartMariaDB(ctx, dir, mariaDBSettings...)
	return mariaDB{s}, err
}

func (m mariaDB) stop() error { return m.Stop() }

const aboutMariaDB = `SELECT CONCAT(VERSION(), ', innodb_flush_log_at_trx_commit=',
  @@innodb_flush_log_at_trx_commit,
  ', innodb_buffer_pool_size=', @@innodb_buffer_pool_size >> 20, 'M, innodb_log_file_size=',
  @@innodb_log_file_size >> 20,
  'M, innodb_doublewrite=', @@innodb_doublewrite, ', innodb_flush_method=', @@innodb_flush_method,
  ', log_bin=', @@log_bin)`

func (m mariaDB) about(ctx context.Context) (about string, err error) {
	err = onMariaDB(m.URL, func(db *sql.DB) error {
		return db.QueryRowContext(ctx, aboutMariaDB).Scan(&about)
	})
	return about, err
}

func (m mariaDB) create(ctx context.Context, name string) (store string, err error) {
	u, err := url.Parse(m.URL)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), onMariaDB(m.URL, func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, "CREATE DATABASE `"+name+"`")
		return err
	})
}

func (m mariaDB) drop(ctx context.Context, name string) error {
	return onMariaDB(m.URL, func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, "DROP DATABASE `"+name+"`")
		return err
	})
}

func (m mariaDB) hold(ctx context.Context, at place) (release func() error, err error) {
	db, err := openMariaDB(at.store)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // so that every statement is in the transaction
	for _, query := range []string{
		`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`, `START TRANSACTION WITH CONSISTENT SNAPSHOT`,
	} {
		if _, err := db.ExecContext(ctx, query); err != nil {
			db.Close()
			return nil, err
		}
	}
	return func() error {
		defer db.Close()
		var held bool
		err := db.QueryRow(`SELECT @@in_transaction`).Scan(&held)
		if err == nil && !held {
			err = fmt.Errorf("the transaction was not held to the end")
		}
		return err
	}, nil
}

func onMariaDB(address string, do func(*sql.DB) error) error {
	db, err := openMariaDB(address)
	if err != nil {
		return err
	}
	defer db.Close()
	return do(db)
}

func openMariaDB(address string) (*sql.DB, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	c := mysqldriver.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = u.User.Username(), "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	c.InterpolateParams = true // a statement of a thousand rows is used only once
	connector, err := mysqldriver.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}
