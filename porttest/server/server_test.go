package server_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/carillon-run/carillon/porttest/server"
	"github.com/carillon-run/carillon/porttest/skip"
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

// verdict is a test that records how it was ended.
type verdict struct {
	testing.TB
	words string
}

func (v *verdict) Helper()                           {}
func (v *verdict) Skipf(format string, args ...any)  { v.words = fmt.Sprintf(format, args...) }
func (v *verdict) Fatalf(format string, args ...any) { v.words = fmt.Sprintf(format, args...) }
func (v *verdict) Fatal(args ...any)                 { v.words = fmt.Sprint(args...) }

func TestAMissingServerIsADemandOfItsOwnAndOtherErrorsAreFailures(t *testing.T) {
	missing := fmt.Errorf("postgres is %w: apt-get install postgresql", server.ErrMissing)
	for _, c := range []struct {
		require string
		err     error
		want    string
	}{
		{"none", missing, "!!! SKIPPED: postgres is not installed"},
		{"servers", missing, "!!! MISSING"},
		{"none", errors.New("the disk is full"), "the disk is full"},
		{"servers", nil, ""},
	} {
		t.Setenv(skip.Variable, c.require)
		v := &verdict{}
		if server.Need(v, c.err); !strings.HasPrefix(v.words, c.want) || c.want == "" && v.words != "" {
			t.Errorf("%s=%q, %v: %q, want %q", skip.Variable, c.require, c.err, v.words, c.want)
		}
	}
}
