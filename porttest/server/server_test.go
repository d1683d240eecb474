package server_test

import (
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/carillon-run/carillon/porttest/server"
)

func answers(t *testing.T, s *server.Server) bool {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

func TestAServerAnswersUntilItIsStoppedAndAgainWhenItIsStarted(t *testing.T) {
	pg := server.Postgres(t)
	bouncer := server.PgBouncer(t, pg)
	for _, s := range []*server.Server{bouncer, pg} {
		if !answers(t, s) || s.Pid() == 0 {
			t.Fatal("it does not answer")
		}
		if err := s.Restart(t.Context()); err != nil || !answers(t, s) {
			t.Fatal("after a restart:", err)
		}
		if err := s.Kill(); err != nil || answers(t, s) || s.Pid() != 0 {
			t.Fatal("after a kill it still answers:", err)
		}
		if err := s.Start(t.Context()); err != nil || !answers(t, s) {
			t.Fatal("after a kill and a start:", err)
		}
	}
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := pg.Signal(sig); err != nil {
			t.Error(err)
		}
	}
	if err := pg.Stop(); err != nil || answers(t, pg) {
		t.Error("it still answers:", err)
	}
	if _, err := os.Stat(pg.Dir); !os.IsNotExist(err) {
		t.Error("its directory is left:", err)
	}
}
