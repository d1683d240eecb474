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

func TestAMissingServerFailsTheTestWhereItIsDemandedAndSkipsItElsewhere(t *testing.T) {
	missing := fmt.Errorf("postgres is %w: apt-get install postgresql", server.ErrMissing)
	for _, c := range []struct {
		ci, require string
		err         error
		want        string
	}{
		{"", "", missing, "!!! SKIPPED: postgres is not installed"},
		{"false", "", missing, "!!! SKIPPED"},
		{"true", "", missing, "!!! MISSING"},
		{"1", "", missing, "!!! MISSING"},
		{"true", "0", missing, "!!! SKIPPED"},
		{"", "1", missing, "!!! MISSING"},
		{"", "", errors.New("the disk is full"), "the disk is full"},
		{"true", "1", nil, ""},
	} {
		t.Setenv("CARILLON_TEST_REQUIRE", "")
		t.Setenv("CI", c.ci)
		t.Setenv("REQUIRE_SERVERS", c.require)
		v := &verdict{}
		if server.Need(v, c.err); !strings.HasPrefix(v.words, c.want) || c.want == "" && v.words != "" {
			t.Errorf(
				"CI=%q REQUIRE_SERVERS=%q, %v: %q, want %q", c.ci, c.require, c.err, v.words, c.want,
			)
		}
	}
}

func TestASkippedTestFailsWhereAllAreDemanded(t *testing.T) {
	v := &verdict{}
	t.Setenv("CARILLON_TEST_REQUIRE", "")
	if server.Skip(v, "not root"); v.words != "!!! SKIPPED: not root" {
		t.Error(v.words)
	}
	t.Setenv("CARILLON_TEST_REQUIRE", "all")
	t.Setenv("REQUIRE_SERVERS", "0")
	if server.Skip(v, "not root"); v.words != "!!! SKIPPED, and CARILLON_TEST_REQUIRE is all: not root" {
		t.Error(v.words)
	}
	if !server.Demanded() {
		t.Error("servers are not demanded, but all tests are")
	}
}
