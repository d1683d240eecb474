package node

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon/porttest/server"
)

func TestListsAreReadFromTheReplicaAndSayHowFarItIsBehind(t *testing.T) {
	primary := server.Postgres(t)
	if err := Migrate(t.Context(), primary.URL); err != nil {
		t.Fatal(err)
	}
	copied := server.Replica(t, primary)
	n := open(t, Config{
		Data: t.TempDir(), Store: primary.URL, StoreReplica: copied.URL, Listen: "127.0.0.1:0",
	})
	start(t, n)
	get := func(path string) (lag, body string) {
		t.Helper()
		req, _ := http.NewRequestWithContext(t.Context(), "GET", n.URL()+path, nil)
		req.Header.Set("Authorization", "Bearer "+n.secrets.token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp.Status, string(b), err)
		}
		return resp.Header.Get("Carillon-Replica-Lag"), string(b)
	}
	jobs, err := n.Submit(t.Context(), definition("test", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the job has come to the replica", func() bool {
		lag, body := get("/v1/jobs")
		_, err := time.ParseDuration(lag) // no header as long as the lag is not known
		return err == nil && strings.Contains(body, jobs[0].ID.String())
	})
	if lag, _ := get("/v1/jobs/" + jobs[0].ID.String()); lag != "" {
		t.Errorf("a single job comes from the replica, %s behind", lag)
	}
	if err := copied.Stop(); err != nil {
		t.Fatal(err)
	}
	until(t, "without the replica the store itself is asked", func() bool {
		lag, body := get("/v1/jobs")
		return lag == "" && strings.Contains(body, jobs[0].ID.String())
	})
}
