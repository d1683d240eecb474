package node

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

func TestAFailedRunCallsItsWebhookUntilThatIsAnswered(t *testing.T) {
	const secret = "a secret of more than 24 bytes"
	ids, facts := make(chan string, 10), make(chan []byte, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mac := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp"), body)
		if r.Header.Get("Webhook-Signature") != "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
			t.Errorf("the signature is wrong: %v", r.Header)
		}
		ids <- r.Header.Get("Webhook-Id")
		if facts <- body; len(facts) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer receiver.Close()
	n := open(t, Config{
		Data: t.TempDir(), Listen: "127.0.0.1:0",
		HTTPAllow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Handlers: map[string]executor.Handler{"test": func(context.Context, executor.Task) error {
			return executor.Fatal(errors.New("no luck"))
		}},
	})
	start(t, n)
	def := carillon.Definition{
		Type: "test", Target: carillon.Target{Handler: &carillon.Handler{}},
		OnFailure: &carillon.Hook{Webhook: &carillon.Webhook{URL: receiver.URL, Secret: secret}},
	}
	jobs, err := n.Submit(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	var seen [2]string
	for i := range seen {
		select {
		case seen[i] = <-ids:
		case <-time.After(time.Minute): // only ends a test that hangs
			t.Fatal("the webhook was not called")
		}
	}
	if seen[0] != seen[1] {
		t.Errorf("two attempts have the ids %q: want one", seen)
	}
	var said struct {
		Type string
		Data struct{ Run carillon.Run }
	}
	if err := json.Unmarshal(<-facts, &said); err != nil {
		t.Fatal(err)
	}
	if said.Type != "run.failed" || said.Data.Run.ID.Job != jobs[0].ID || said.Data.Run.Reason != "no luck" {
		t.Errorf("the webhook was told %+v", said)
	}
}
