package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
)

func TestNoAnswerShowsTheSecretOfAHookAndAnEditWithItsMaskKeepsIt(t *testing.T) {
	h := newHouse(t, nil)
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	hook := `"on_failure":{"webhook":{"url":"https://x.test/hook","secret":"` + secret + `"}}`
	submitted := h.call("POST", "/v1/jobs", with(`"schedule":{"after":"1h"},`+hook)).is(201)
	id, _ := submitted.json()["id"].(string)
	masked, err := json.Marshal(submitted.json()["on_failure"])
	if err != nil || !strings.Contains(string(masked), carillon.SecretMask) {
		t.Fatalf("submitted: %s, %v", submitted.Body, err)
	}
	edited := h.call("PATCH", "/v1/jobs/"+id, `{"name":"other","on_failure":`+string(masked)+`}`).is(200)
	dead := "/v1/dead-letters/" + h.die(with(hook), "no").ID.String()
	for name, got := range map[string]answer{
		"dead letter": h.call("GET", dead, "").is(200),
		"submit":      submitted, "edit": edited, "read": h.call("GET", "/v1/jobs/"+id, "").is(200),
		"list":  h.call("GET", "/v1/jobs", "").is(200),
		"pause": h.call("POST", "/v1/jobs/"+id+"/pause", "").is(200),
		"batch": h.call("POST", "/v1/jobs/batch", `{"jobs":[`+with(hook)+`]}`).is(201),
	} {
		body := got.Body.String()
		if strings.Contains(body, secret) || !strings.Contains(body, carillon.SecretMask) {
			t.Errorf("%s shows the secret, or no mask: %s", name, body)
		}
	}
	job, err := carillon.ParseJobID(id)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := h.store.Jobs(t.Context(), []carillon.JobVersion{{Job: job}})
	if err != nil || len(stored) != 1 || stored[0].Name != "other" ||
		stored[0].OnFailure.Webhook.Secret != secret {
		t.Errorf("stored: %+v, %v", stored, err)
	}
	removed := h.call("PATCH", "/v1/jobs/"+id, `{"on_failure":{}}`).is(200)
	if _, has := removed.json()["on_failure"]; has {
		t.Errorf("removed: %s", removed.Body)
	}
}
