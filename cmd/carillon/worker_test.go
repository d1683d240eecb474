package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/node"
)

// screen is the output of a command: the command writes it while the test reads it.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// realNode is a node that performs no runs itself, and the data directory where its clients find it.
func realNode(t *testing.T) (*node.Node, string) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	n, err := node.Open(t.Context(), node.Config{
		Data: data, Store: "mem:", Listen: "127.0.0.1:0", Concurrency: -1,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return n, data
}

// commandLine runs a command as a user does, with an empty environment.
func commandLine(ctx context.Context, args ...string) (*screen, chan int) {
	out, code := &screen{}, make(chan int, 1)
	a := newApp()
	a.out, a.err, a.env = out, out, func(string) string { return "" }
	go func() { code <- a.run(ctx, args) }()
	return out, code
}

func TestAWorkerPerformsRunsUntilItIsStopped(t *testing.T) {
	n, data := realNode(t)
	called := make(chan string, 10)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		called <- r.Header.Get("Carillon-Attempt") + " " + string(body)
	}))
	defer target.Close()
	ctx, stop := context.WithCancel(t.Context())
	token, err := os.ReadFile(n.TokenFile())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "worker.yaml")
	writeTestFile(
		t, file,
		fmt.Sprintf(
			"server: [%q, %q]\ntoken_file: %q\nhttp_allow: 127.0.0.1\nname: under test\n", n.URL(),
			"http://127.0.0.1:1", n.TokenFile(),
		),
	)
	out, code := commandLine(
		ctx, "worker", "--config", file, "--queues", "calls=3,default", "--concurrency", "7",
	)

	def := carillon.Definition{}
	def.Queue, def.Payload, def.Target.HTTP = "calls", []byte(`{"n":1}`), &carillon.HTTP{URL: target.URL}
	jobs, err := n.Submit(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	if got := <-called; got != `1 {"n":1}` {
		t.Errorf("called with %s", got)
	}
	list, listed := commandLine(t.Context(), "members", "--data", data)
	ok := <-listed == exitOK
	if text := list.String(); !ok ||
		!regexp.MustCompile(`worker  under test +calls=3,default +[01]/7 `).MatchString(text) ||
		!strings.Contains(text, "node    "+n.URL()+" ") {
		t.Errorf("workers are\n%s", text)
	}
	list, listed = commandLine(t.Context(), "workers", "--data", data, "-o", "wide") // the same list
	<-listed
	host, _ := os.Hostname()
	for _, want := range []string{
		"under test", "calls=3,default", host, thisBuild().Version, strconv.Itoa(carillon.Shards),
	} {
		if !strings.Contains(list.String(), want) {
			t.Errorf("workers do not say %s:\n%s", want, list)
		}
	}
	stop()
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d", got)
	}
	found, err := n.Store().FindRuns(t.Context(), carillon.RunQuery{
		Namespace: carillon.DefaultNamespace, Job: jobs[0].ID,
	})
	if err != nil || len(found.Runs) != 1 || found.Runs[0].State != carillon.StateSucceeded {
		t.Errorf("after the stop the runs are %+v, %v", found.Runs, err)
	}
	for _, want := range []string{
		n.URL(), "http://127.0.0.1:1", "under test", "calls=3, default", "slots   7", "Registered as worker_",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if strings.Contains(out.String(), strings.TrimSpace(string(token))) {
		t.Error("it shows the token")
	}
}

func TestAWorkerFindsTheLocalServer(t *testing.T) {
	n, data := realNode(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, code := commandLine(ctx, "worker", "--data", data)
	for began := time.Now(); !strings.Contains(out.String(), "Registered as") &&
		time.Since(began) < 3*time.Minute; {
		<-time.After(10 * time.Millisecond)
	}
	stop()
	if got := <-code; got != exitOK || !strings.Contains(out.String(), "a worker for "+n.URL()+"\n") ||
		!strings.Contains(out.String(), "queues  all\n") {
		t.Errorf("exit code %d: %s", got, out)
	}
}

func TestAWorkerThatIsRefusedSaysWhy(t *testing.T) {
	n, _ := realNode(t)
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--server", n.URL(), "--token", "wrong"}, exitFailed, "does not accept the token"},
		{[]string{"--server", other.URL, "--token", "x"}, exitFailed, "refuses this worker"},
		{[]string{"--server", "ftp://x", "--token", "x"}, exitUsage, "ftp://x"},
		{[]string{"--server", n.URL(), "--token-file", "/nowhere/token"}, exitUsage, "/nowhere/token"},
		{[]string{"--queues", "a b"}, exitUsage, "a queue such as mail"},
		{[]string{"--queues", "mail=0"}, exitUsage, "a weight from 1 to 100"},
		{[]string{"--queues", "mail=101"}, exitUsage, "a weight from 1 to 100"},
		{[]string{"--concurrency", "0"}, exitUsage, "from 1 to 40000"},
		{[]string{"--concurrency", "40001"}, exitUsage, "from 1 to 40000"},
		{[]string{"--drain", "-1s"}, exitUsage, "not negative"},
		{[]string{"--http-allow", "example.com"}, exitUsage, "a network"},
		{[]string{"--retry-budget", "ten"}, exitUsage, "0.1% to 100%, or off"},
		{[]string{"--log-level", "loud"}, exitUsage, "debug, info, warn or error"},
		{[]string{"--log-format", "xml"}, exitUsage, "text or json"},
		{[]string{"--config", "/nowhere/worker.yaml"}, exitUsage, "/nowhere/worker.yaml"},
	} {
		out, code := commandLine(t.Context(), append([]string{"worker"}, c.args...)...)
		if got := <-code; got != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%q: exit code %d, want %d and %q: %s", c.args, got, c.code, c.want, out)
		}
	}
}

func TestAWorkersTokenIsForThoseItIsMeantFor(t *testing.T) {
	data := t.TempDir()
	writePrivateFile(t, filepath.Join(data, "token"), "local\n")
	writePrivateFile(t, filepath.Join(data, "file"), "filed\n")
	// bare is like a directory that a repository can bring along; in address a server is running.
	bare, address := t.TempDir(), t.TempDir()
	writePrivateFile(t, filepath.Join(bare, "address"), "http://127.0.0.1:1\n")
	writePrivateFile(t, filepath.Join(address, "token"), "beside\n")
	writePrivateFile(t, filepath.Join(address, "address"), "http://127.0.0.1:1\n")
	file := filepath.Join(data, "file")
	for name, c := range map[string]struct {
		flags      workerFlags
		token, env string
		want       string
		wantErr    string
	}{
		"the local one for a local server": {
			workerFlags{servers: []string{"localhost:1", "http://127.0.0.1:2"}, data: data},
			"", "", "local",
			"",
		},
		"none where no server runs": {
			workerFlags{data: data}, "", "", "", "no server is named",
		},
		"not the local one for other machines": {
			workerFlags{servers: []string{"localhost:1", "https://carillon.example"}, data: data},
			"", "", "",
			"",
		},
		"that of the environment for any": {
			workerFlags{servers: []string{"https://carillon.example"}, data: data}, "", "env", "env", "",
		},
		"that of the file over the environment": {
			workerFlags{tokenFile: file}, "", "env", "filed", "",
		},
		"the one beside the address of a file": {workerFlags{data: address}, "", "", "beside", ""},
		"none to an address without one": {
			workerFlags{data: bare}, "", "", "", "no token beside it",
		},
		"that of the environment not to such an address": {
			workerFlags{data: address}, "", "env", "", "CARILLON_TOKEN is not sent to http://127.0.0.1:1",
		},
		"that of a named file not to such an address": {
			workerFlags{data: address, tokenFile: file}, "", "", "", "--token-file is not sent to",
		},
		"that of the flag over all": {
			workerFlags{tokenFile: file}, "flag", "env", "flag", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := offline()
			a.token, a.env = c.token, func(key string) string {
				return map[string]string{"CARILLON_TOKEN": c.env}[key]
			}
			a.data = t.TempDir()
			_, got, err := a.employers(&c.flags)
			if got != c.want || (err != nil) != (c.wantErr != "") ||
				err != nil && !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestTwoWorkersDoNotShareADirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	f := workerFlags{data: dir}
	_, release, err := f.executors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%s/worker.lock is in use by carillon process %d", dir, os.Getpid())
	if _, _, err := f.executors(t.Context()); err == nil || !strings.Contains(err.Error(), want) ||
		!strings.Contains(err.Error(), "--data") {
		t.Errorf("the second: %v, want %q", err, want)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
}
