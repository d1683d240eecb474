package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var discoveries = map[string]struct {
	server, token string // flags
	env           map[string]string
	files         map[string]string // of the data directory
	want          place
	wantToken     string
}{
	"nothing is known": {want: place{defaultServer, "the default"}},
	"the local server has left its token": {
		files: map[string]string{"token": "local\n"}, want: place{defaultServer, "the default"}, wantToken: "local",
	},
	"the local server is at another address": {
		files: map[string]string{"token": "local", "address": "http://10.0.0.7:9000\n"},
		want:  place{"http://10.0.0.7:9000", "DATA/address"}, wantToken: "local",
	},
	"an empty address file says nothing": {
		files: map[string]string{"address": "\n"}, want: place{defaultServer, "the default"},
	},
	"the environment comes before the data directory": {
		env:   map[string]string{"CARILLON_SERVER": "localhost:9000", "CARILLON_TOKEN": "env"},
		files: map[string]string{"token": "local", "address": "http://127.0.0.1:1"},
		want:  place{"http://localhost:9000", "CARILLON_SERVER"}, wantToken: "env",
	},
	"flags come before the environment": {
		server: "https://carillon.example", token: "flag",
		env:  map[string]string{"CARILLON_SERVER": "localhost:9000", "CARILLON_TOKEN": "env"},
		want: place{"https://carillon.example", "--server"}, wantToken: "flag",
	},
	"the local token goes to this machine": {
		server: "http://[::1]:8420", files: map[string]string{"token": "local"},
		want: place{"http://[::1]:8420", "--server"}, wantToken: "local",
	},
	"the local token does not go to another machine": {
		server: "https://carillon.example", files: map[string]string{"token": "local"},
		want: place{"https://carillon.example", "--server"},
	},
}

func TestTheServerAndItsTokenAreFound(t *testing.T) {
	for name, c := range discoveries {
		t.Run(name, func(t *testing.T) {
			a, _ := offline()
			a.data, a.server, a.token = t.TempDir(), c.server, c.token
			a.env = func(name string) string { return c.env[name] }
			for file, content := range c.files {
				writeTestFile(t, filepath.Join(a.data, file), content)
			}
			to := a.locate()
			token, err := a.credential(to)
			to.from = strings.Replace(to.from, a.data, "DATA", 1)
			if err != nil || to != c.want || token != c.wantToken {
				t.Errorf("found %+v, token %q, %v; want %+v, token %q", to, token, err, c.want, c.wantToken)
			}
		})
	}
}

func TestATokenThatCannotBeReadIsAnError(t *testing.T) {
	a, out := offline()
	data := t.TempDir()
	if err := os.Mkdir(filepath.Join(data, "token"), 0o700); err != nil {
		t.Fatal(err)
	}
	if code := a.run(t.Context(), []string{"jobs", "--data", data}); code != exitFailed || !strings.Contains(out.String(), "read the local token") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

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
