package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/internal/ledger"
	"github.com/carillon-run/carillon/porttest/skip"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// TestMain sets a umask under which the temporary directories of tests can be data directories.
func TestMain(m *testing.M) {
	syscall.Umask(0o022)
	os.Exit(m.Run())
}

func open(t *testing.T, cfg Config) *Node {
	t.Helper()
	cfg.Logger = quiet
	n, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.shut)
	return n
}

// start runs a node; stop waits for its clean end.
func start(t *testing.T, n *Node) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("a clean stop ends with %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func TestANodeThatIsToldToStopBeforeItHasBegunStopsCleanly(t *testing.T) {
	n := open(t, Config{Data: t.TempDir(), Listen: "127.0.0.1:0"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Run(ctx); err != nil {
		t.Errorf("Run ends with %v", err)
	}
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestWhatANodeKeepsIsPrivate(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	n := open(t, Config{Data: data})
	defer start(t, n)()
	// The write makes sure that there is a write-ahead log.
	if _, err := n.Submit(t.Context(), definition("later", time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := mode(t, data); got != 0o700 {
		t.Errorf("the data directory has mode %o", got)
	}
	files, err := filepath.Glob(filepath.Join(data, "carillon.db*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range append(files, n.TokenFile(), filepath.Join(data, lockFile)) {
		if got := mode(t, file); got != 0o600 {
			t.Errorf("%s has mode %o", file, got)
		}
	}
}

func TestADirectoryOrATokenThatOthersReachIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(data string) error
		want  []string
	}{
		"others can write in the directory": {
			func(data string) error { return os.Chmod(data, 0o777) },
			[]string{"DATA", "0777", `"chmod go-w DATA"`},
		},
		"the directory is another user's": {
			func(data string) error { return os.Chown(data, 54321, -1) },
			[]string{"DATA belongs to user 54321", `"chown -R `},
		},
		"others can read the token": {
			func(data string) error { return os.Chmod(filepath.Join(data, tokenFile), 0o644) },
			[]string{"DATA/token", "0644", `"chmod 600 DATA/token"`},
		},
		"the token is another user's": {
			func(data string) error { return os.Chown(filepath.Join(data, tokenFile), 54321, -1) },
			[]string{"DATA/token belongs to user 54321"},
		},
	} {
		for where, store := range map[string]string{"the store is in it": "", "the store is not": "mem:"} {
			t.Run(name+", "+where, func(t *testing.T) {
				data := t.TempDir()
				open(t, Config{Data: data, Store: store}).shut()
				if err := c.spoil(data); errors.Is(err, os.ErrPermission) {
					skip.Loudly(
						t, skip.KindRights, "only root can give files to another user; run the tests as root",
					)
				} else if err != nil {
					t.Fatal(err)
				}
				n, err := Open(t.Context(), Config{Data: data, Store: store, Logger: quiet})
				if err == nil {
					n.shut()
					t.Fatal("it is used")
				}
				for _, want := range c.want {
					if want = strings.ReplaceAll(want, "DATA", data); !strings.Contains(err.Error(), want) {
						t.Errorf("got %v, want %q", err, want)
					}
				}
			})
		}
	}
}

func TestTheTokenIsMadeOnceAndKept(t *testing.T) {
	data := t.TempDir()
	var tokens []string
	for range 2 {
		n := open(t, Config{Data: data})
		b, err := os.ReadFile(n.TokenFile())
		if err != nil || strings.TrimSpace(string(b)) != n.secrets.token || len(n.secrets.token) < 32 {
			t.Errorf("token file %q, %v", b, err)
		}
		tokens = append(tokens, n.secrets.token)
		n.shut()
	}
	if tokens[0] != tokens[1] {
		t.Errorf("tokens %q", tokens)
	}
	if err := os.WriteFile(filepath.Join(data, tokenFile), []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Data: data, Logger: quiet}); err == nil ||
		!strings.Contains(err.Error(), tokenFile) {
		t.Errorf("a token that anybody could guess: %v", err)
	}
}

func TestAStoreThatOtherUsersCanWriteIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "elsewhere.db")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o666)); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"serve": func() error {
			_, err := Open(t.Context(), Config{Data: t.TempDir(), Store: "sqlite:" + path, Logger: quiet})
			return err
		}(),
		"migrate": Migrate(t.Context(), "sqlite:"+path),
	} {
		if err == nil || !strings.Contains(err.Error(), "other users can write "+path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyOneNodeServesAStore(t *testing.T) {
	data := t.TempDir()
	first := open(t, Config{Data: data, Listen: "127.0.0.1:0"})
	store := "sqlite:" + filepath.Join(data, "carillon.db")
	for what, cfg := range map[string]Config{
		"the same data directory":                  {Data: data, Logger: quiet},
		"the same store of another data directory": {Data: t.TempDir(), Store: store, Logger: quiet},
		"the same store, written in another fashion": {
			Data: t.TempDir(), Store: strings.Replace(store, ":", "://", 1), Logger: quiet,
		},
	} {
		n, err := Open(t.Context(), cfg)
		if err == nil {
			n.shut()
		}
		if err == nil ||
			!strings.Contains(
				err.Error(), fmt.Sprintf("carillon process %d serving %s", os.Getpid(), first.URL()),
			) {
			t.Errorf("%s: %v", what, err)
		}
	}
	first.shut()
	open(t, Config{Data: data})
}

func TestTheAddressFileIsThereWhileTheNodeServes(t *testing.T) {
	n := open(t, Config{Data: t.TempDir(), Listen: "127.0.0.1:0"})
	stop := start(t, n)
	path := filepath.Join(n.cfg.Data, addressFile)
	if b, err := os.ReadFile(path); err != nil || string(b) != n.URL()+"\n" {
		t.Errorf("%q, %v; the URL is %s", b, err, n.URL())
	}
	stop()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the stop: %v", err)
	}
}

func definition(typ string, after time.Duration) carillon.Definition {
	def := carillon.Definition{}
	def.Type, def.Target.Handler, def.Schedule.After = typ, &carillon.Handler{}, carillon.Duration(after)
	return def
}

func TestAJobThatIsDueLaterRunsAfterARestart(t *testing.T) {
	ran := make(chan carillon.RunID, 10)
	cfg := Config{Data: t.TempDir(), Handlers: map[string]executor.Handler{
		"test": func(_ context.Context, task executor.Task) error { ran <- task.Run.ID; return nil },
	}}
	n := open(t, cfg)
	stop := start(t, n)
	jobs, err := n.Submit(t.Context(), definition("test", 0), definition("test", 3*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if got := <-ran; got.Job != jobs[0].ID {
		t.Errorf("%s ran first", got)
	}
	stop()
	if len(ran) > 0 {
		t.Fatal("the machine needed three seconds to stop a node: the job ran before the restart")
	}
	n = open(t, cfg)
	stop = start(t, n)
	got := <-ran
	stop() // after this the end of the run is on disk
	if got.Job != jobs[1].ID || len(ran) > 0 {
		t.Errorf("%s ran, and %d more", got, len(ran))
	}
	n = open(t, cfg)
	runs, err := n.Store().Runs(t.Context(), []carillon.RunID{got}, false)
	if err != nil || len(runs) != 1 || runs[0].State != carillon.StateSucceeded || runs[0].Attempt != 1 {
		t.Errorf("%+v, %v", runs, err)
	}
}

func TestHealthAndMetricsAreServed(t *testing.T) {
	n := open(t, Config{Data: t.TempDir(), Listen: "127.0.0.1:0", Concurrency: 7})
	defer start(t, n)()
	get := func(path, token string) (int, string) {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", n.URL()+path, nil)
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	for status := 0; status != 200; { // the node loads due runs first
		if status, _ = get("/readyz", ""); status != 200 && status != 503 {
			t.Fatalf("readyz: %d", status)
		}
	}
	if _, err := n.Submit(t.Context(), definition("test", time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, token string
		status      int
		has         string
	}{
		{"/healthz", "", 200, `"ok"`},
		{"/metrics", "", 401, ""},
		{"/metrics", "carillon_wrong_wrong_wrong", 401, ""},
		{
			"/metrics", n.secrets.token, 200,
			`carillon_jobs_submitted_total{namespace="default",queue="default"} 1`,
		},
		{"/metrics", n.secrets.token, 200, "carillon_worker_slots 7"},
		{"/v1/jobs", "", 401, ""},
		{"/v1/jobs", n.secrets.token, 200, `"type":"test"`},
	} {
		if status, body := get(c.path, c.token); status != c.status || !strings.Contains(body, c.has) {
			t.Errorf(
				"%s with token %q: %d %s, want %d and %s", c.path, c.token, status, body, c.status, c.has,
			)
		}
	}
}

// badDisk is a store whose disk cannot be trusted any more.
type badDisk struct{ *mem.Store }

var errDisk = fmt.Errorf("%w: fsync failed", carillon.ErrPermanent)

func (badDisk) Commit(context.Context, []carillon.Change) ([]int, error) { return nil, errDisk }

func TestAPermanentErrorOfTheStoreEndsTheNode(t *testing.T) {
	n := open(t, Config{Data: t.TempDir(), Store: "mem:"})
	n.backend.Store, n.metrics = badDisk{mem.NewStore()}, newMetrics()
	if err := n.assemble(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- n.Run(t.Context()) }()
	if _, err := n.Submit(
		t.Context(), definition("test", time.Hour),
	); !errors.Is(err, carillon.ErrPermanent) {
		t.Errorf("submit: %v", err)
	}
	if err := <-done; !errors.Is(err, carillon.ErrPermanent) {
		t.Errorf("Run ends with %v", err)
	}
}

func TestALedgerDeliversAPermanentError(t *testing.T) {
	l := ledger.New(ledger.Config{Store: badDisk{mem.NewStore()}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	for range 3 { // no goroutine receives from Broken yet, and that delays nothing
		if _, err := l.Commit(ctx, []carillon.Change{{}}); !errors.Is(err, errDisk) {
			t.Errorf("commit: %v", err)
		}
	}
	if err := <-l.Broken(); !errors.Is(err, errDisk) || !errors.Is(l.Failing(), errDisk) {
		t.Errorf("broken: %v, failing: %v", err, l.Failing())
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestANodeOnAllAddressesSaysALoopbackURL(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		n := open(t, Config{Data: t.TempDir(), Listen: listen})
		if !strings.HasPrefix(n.URL(), "http://127.0.0.1:") {
			t.Errorf("listening on %s, the URL is %s", listen, n.URL())
		}
		n.shut()
	}
}
