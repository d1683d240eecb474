package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/carillon-run/carillon/porttest/skip"
)

var discoveries = map[string]struct {
	server, token string // flags
	env           map[string]string
	files         map[string]string // in the data directory
	want          place
	wantToken     string
	wantErr       string // instead of a token
}{
	"nothing is known": {want: place{url: defaultServer, from: "the default"}},
	"the local token does not go to the default address: its server does not run, and another process may listen there": {
		files: map[string]string{"token": "local\n"}, want: place{url: defaultServer, from: "the default"},
	},
	"an address without a token beside it is not that of a server": {
		files: map[string]string{"address": "http://127.0.0.1:1"},
		want:  place{"http://127.0.0.1:1", "DATA/address", true}, wantErr: "no token beside it",
	},
	"the local server is at another address": {
		files: map[string]string{"token": "local", "address": "http://127.0.0.2:9000\n"},
		want:  place{"http://127.0.0.2:9000", "DATA/address", true}, wantToken: "local",
	},
	"the local server listens everywhere": {
		files: map[string]string{"token": "local", "address": "http://[::]:9000\n"},
		want:  place{"http://[::]:9000", "DATA/address", true}, wantToken: "local",
	},
	"an empty address file says nothing": {
		files: map[string]string{"address": "\n"}, want: place{url: defaultServer, from: "the default"},
	},
	"a token of the environment goes to the default address": {
		env:  map[string]string{"CARILLON_TOKEN": "env"},
		want: place{url: defaultServer, from: "the default"}, wantToken: "env",
	},
	"a token of the environment does not go to an address from a file": {
		env:     map[string]string{"CARILLON_TOKEN": "env"},
		files:   map[string]string{"token": "local", "address": "http://127.0.0.1:1"},
		want:    place{"http://127.0.0.1:1", "DATA/address", true},
		wantErr: "the token from CARILLON_TOKEN is not sent to http://127.0.0.1:1",
	},
	"nor where no token is beside it": {
		env:   map[string]string{"CARILLON_TOKEN": "env"},
		files: map[string]string{"address": "http://127.0.0.1:1"},
		want:  place{"http://127.0.0.1:1", "DATA/address", true}, wantErr: "name the server",
	},
	"nor does a token of the command line": {
		token:   "flag",
		files:   map[string]string{"token": "local", "address": "http://127.0.0.1:1"},
		want:    place{"http://127.0.0.1:1", "DATA/address", true},
		wantErr: "the token from --token is not sent to http://127.0.0.1:1",
	},
	"the local token may be named too": {
		env:   map[string]string{"CARILLON_TOKEN": "local"},
		files: map[string]string{"token": "local\n", "address": "http://127.0.0.1:1"},
		want:  place{"http://127.0.0.1:1", "DATA/address", true}, wantToken: "local",
	},
	"the environment comes before the data directory": {
		env:   map[string]string{"CARILLON_SERVER": "localhost:9000", "CARILLON_TOKEN": "env"},
		files: map[string]string{"token": "local", "address": "http://127.0.0.1:1"},
		want:  place{url: "http://localhost:9000", from: "CARILLON_SERVER"}, wantToken: "env",
	},
	"flags come before the environment": {
		server: "https://carillon.example", token: "flag",
		env:  map[string]string{"CARILLON_SERVER": "localhost:9000", "CARILLON_TOKEN": "env"},
		want: place{url: "https://carillon.example", from: "--server"}, wantToken: "flag",
	},
	"the local token goes to this machine": {
		server: "http://[::1]:8420", files: map[string]string{"token": "local"},
		want: place{url: "http://[::1]:8420", from: "--server"}, wantToken: "local",
	},
	"the local token does not go to another machine": {
		server: "https://carillon.example", files: map[string]string{"token": "local"},
		want: place{url: "https://carillon.example", from: "--server"},
	},
}

func TestTheServerAndItsTokenAreFound(t *testing.T) {
	for name, c := range discoveries {
		t.Run(name, func(t *testing.T) {
			a, _ := offline()
			a.data, a.server, a.token = t.TempDir(), c.server, c.token
			a.env = func(name string) string { return c.env[name] }
			for file, content := range c.files {
				writePrivateFile(t, filepath.Join(a.data, file), content)
			}
			to, err := a.locate()
			if err != nil {
				t.Fatal(err)
			}
			token, err := a.credential(to)
			if c.wantErr != "" && err != nil && strings.Contains(err.Error(), c.wantErr) {
				err = nil
			} else if c.wantErr != "" {
				t.Errorf("error %v, want %q", err, c.wantErr)
			}
			to.from = strings.Replace(to.from, a.data, "DATA", 1)
			if err != nil || to != c.want || token != c.wantToken {
				t.Errorf("found %+v, token %q, %v; want %+v, token %q", to, token, err, c.want, c.wantToken)
			}
		})
	}
}

// The data directory of this test is like one that another person leaves in a repository or in a shared
// directory.
func TestAPlantedDataDirectoryIsNotFollowed(t *testing.T) {
	var asked atomic.Int32
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer trap.Close()
	for name, c := range map[string]struct {
		address string
		mode    os.FileMode // of the directory
		uid     int         // of the directory and the files; 0: the user of the test
		token   os.FileMode // of the file
		want    string
	}{
		"the address is another machine's": {
			"http://192.0.2.7:8420", 0o700, 0, 0o600,
			"http://192.0.2.7:8420, which is not an address of this machine",
		},
		"the address is a name": {
			"http://carillon.example", 0o700, 0, 0o600, "is not an address of this machine",
		},
		"other users can write in it":           {trap.URL, 0o777, 0, 0o600, "other users can write in"},
		"other users can read its token":        {trap.URL, 0o700, 0, 0o644, "other users can read"},
		"it belongs to another user of the box": {trap.URL, 0o755, 54321, 0o600, "belongs to user 54321"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.uid != 0 && os.Geteuid() != 0 {
				skip.Loudly(t, skip.KindRights, "only root can give files to another user; run the tests as root")
			}
			t.Chdir(t.TempDir())
			writePrivateFile(t, "carillon-data/address", c.address)
			writePrivateFile(t, "carillon-data/token", "planted")
			err := errors.Join(os.Chmod("carillon-data", c.mode), os.Chmod("carillon-data/token", c.token))
			if c.uid != 0 {
				for _, path := range []string{"address", "token", "."} {
					err = errors.Join(err, os.Chown("carillon-data/"+path, c.uid, -1))
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, command := range []string{"jobs", "worker"} {
				a, out := offline()
				a.http = nil
				code := a.run(t.Context(), []string{command})
				if code != exitFailed || !strings.Contains(out.String(), c.want) || asked.Load() != 0 {
					// A worker would work for the trap for ever.
					t.Fatalf("%s: exit code %d, %d requests: %s", command, code, asked.Load(), out)
				}
			}
		})
	}
}

func TestRootUsesTheServerOfAnotherUserIfItsDirectoryIsNamed(t *testing.T) {
	if os.Geteuid() != 0 {
		skip.Loudly(t, skip.KindRights, "only root can give files to another user; run the tests as root")
	}
	a, _ := offline()
	a.data = t.TempDir()
	writePrivateFile(t, filepath.Join(a.data, "token"), "local")
	writePrivateFile(t, filepath.Join(a.data, "address"), "http://127.0.0.1:1")
	for _, path := range []string{"token", "address", "."} {
		if err := os.Chown(filepath.Join(a.data, path), 54321, -1); err != nil {
			t.Fatal(err)
		}
	}
	to, err := a.locate()
	if err != nil {
		t.Fatal(err)
	}
	if token, err := a.credential(to); token != "local" || err != nil {
		t.Errorf("token %q, %v", token, err)
	}
}

func TestATokenThatCannotBeReadIsAnError(t *testing.T) {
	a, out := offline()
	data := t.TempDir()
	writePrivateFile(t, filepath.Join(data, "address"), "http://127.0.0.1:1")
	if err := os.Mkdir(filepath.Join(data, "token"), 0o700); err != nil {
		t.Fatal(err)
	}
	if code := a.run(t.Context(), []string{"jobs", "--data", data}); code != exitFailed ||
		!strings.Contains(out.String(), "read the local token") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// The server of the directory has stopped, and another process of the machine listens on the default address.
func TestATokenThatIsNotSentIsNamedInTheRefusal(t *testing.T) {
	a, out := offline()
	a.http = &http.Client{Transport: transport(func(r *http.Request) *http.Response {
		if sent := r.Header.Get("Authorization"); sent != "" {
			t.Errorf("%s gets %q", r.URL, sent)
		}
		return &http.Response{StatusCode: 401, Body: http.NoBody, Request: r}
	})}
	data := t.TempDir()
	writePrivateFile(t, filepath.Join(data, "token"), "local")
	code := a.run(t.Context(), []string{"jobs", "--data", data})
	for _, want := range []string{filepath.Join(data, "token"), "is not sent", "--server"} {
		if code != exitFailed || !strings.Contains(out.String(), want) {
			t.Errorf("exit code %d, want %s: %s", code, want, out)
		}
	}
}

// transport answers requests without a network.
type transport func(*http.Request) *http.Response

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r), nil }

func TestNoServerSaysWhatWasTriedAndHowToStartOne(t *testing.T) {
	a, out := offline()
	code := a.run(t.Context(), []string{"jobs", "--server", "127.0.0.1:1"})
	if code != exitUnreachable {
		t.Errorf("exit code %d, want %d", code, exitUnreachable)
	}
	for _, want := range []string{"http://127.0.0.1:1", "--server", `"carillon serve"`} {
		if !strings.Contains(out.String(), want) || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("want one line with %s: %s", want, out)
		}
	}
}

func TestAnAddressThatIsNoneIsWrongUsage(t *testing.T) {
	a, out := offline()
	if code := a.run(t.Context(), []string{"jobs", "--server", "ftp://x"}); code != exitUsage {
		t.Errorf("exit code %d: %s", code, out)
	}
}
