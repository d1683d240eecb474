package mysql_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/carillon-run/carillon/adapter/mysql"
	"github.com/carillon-run/carillon/porttest/server"
)

// shared is one server for all tests of the package that do not stop it. The first test that needs it starts
// it.
var shared struct {
	once      sync.Once
	server    *server.Server
	err       error
	databases atomic.Int64
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func sharedServer(t testing.TB) *server.Server {
	t.Helper()
	shared.once.Do(func() {
		shared.server, shared.err = server.StartMariaDB(context.Background(), "",
			"innodb_flush_log_at_trx_commit=0", "innodb_doublewrite=0", "innodb_buffer_pool_size=128M",
			"innodb_log_file_size=64M",
			"innodb_flush_method=nosync", "sync_frm=0")
	})
	server.Need(t, shared.err)
	return shared.server
}

// database makes an empty database on the shared server and returns its URL.
func database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", shared.databases.Add(1))
	admin := openAt(t, sharedServer(t).URL)
	if err := admin.Exec(t.Context(), `CREATE DATABASE `+name); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(sharedServer(t).URL, "/carillon", "/"+name, 1)
}

// openAt opens a store that is closed with the test.
func openAt(t testing.TB, url string) *mysql.Store {
	t.Helper()
	store, err := mysql.Open(t.Context(), url, mysql.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// emptied returns a function that empties a store and returns it: much quicker than a new store for each
// test.
func emptied(t testing.TB) func(t testing.TB) *mysql.Store {
	t.Helper()
	store := openAt(t, database(t))
	return func(t testing.TB) *mysql.Store {
		t.Helper()
		if err := store.Empty(t.Context()); err != nil {
			t.Fatal(err)
		}
		return store
	}
}
