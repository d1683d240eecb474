package executor

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

func TestASignatureIsThatOfStandardWebhooks(t *testing.T) {
	header := http.Header{}
	err := sign(header, &carillon.Sign{Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
		"msg_p5jXN8AQM9LWM0D4loKWxJek", []byte(`{"test": 2432232314}`), time.Unix(1614265330, 0))
	want := http.Header{
		"Webhook-Id": {"msg_p5jXN8AQM9LWM0D4loKWxJek"}, "Webhook-Timestamp": {"1614265330"},
		"Webhook-Signature": {"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
	}
	if err != nil || !reflect.DeepEqual(header, want) {
		t.Errorf("got %v, %v, want %v", header, err, want)
	}
}

func TestASignedRequestCarriesTheSignatureOfItsBodyAndTheIDOfItsRun(t *testing.T) {
	const secret = "a secret of more than 24 bytes"
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id, at := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
		mac := hmac.New(sha256.New, []byte(secret)) // as a receiver computes it
		fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
		want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		if r.Header.Get("webhook-signature") != want {
			t.Errorf("got the signature %q, want %q", r.Header.Get("webhook-signature"), want)
		}
		var sent int64
		if _, err := fmt.Sscan(at, &sent); err != nil || time.Since(time.Unix(sent, 0)) > time.Minute {
			t.Errorf("got the time %q, %v", at, err)
		}
		got = append(got, id+" "+string(body))
	}))
	defer server.Close()
	job := &carillon.Job{Definition: carillon.Definition{
		Payload: []byte(`{"a":1}`),
		Target: carillon.Target{HTTP: &carillon.HTTP{
			Method: "POST", URL: server.URL, Sign: &carillon.Sign{Secret: secret},
		}},
	}}
	var printed bytes.Buffer
	run := carillon.Run{ID: carillon.RunID{Job: 1, Due: 2}, Attempt: 1}
	task := Task{Run: run, Job: job, Print: func(_, line string) { printed.WriteString(line) }}
	local := NewHTTP(HTTPConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	for range 2 { // two attempts
		if o := local.Execute(t.Context(), task); o.Kind != carillon.OutcomeSuccess {
			t.Fatalf("got %+v", o)
		}
		task.Run.Attempt++
	}
	if want := run.ID.String() + ` {"a":1}`; !reflect.DeepEqual(got, []string{want, want}) {
		t.Errorf("the target got %q, want %q twice", got, want)
	}
	if strings.Contains(printed.String(), secret) {
		t.Errorf("the log has the secret: %s", &printed)
	}
}
