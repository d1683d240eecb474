package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
)

// first is the beginning of a worker's first beat.
const first = `{"number":1,"heard":0,`

// held returns a well-formed attempt that no worker was given.
func held(fields string) string {
	run := carillon.Run{ID: carillon.RunID{Job: 1, Due: 1}, Attempt: 1}
	return fmt.Sprintf(`{"run_id":%q,"fence":"%d"%s}`, run.ID, run.Fence(), fields)
}

func reporting(fields string) string { return `{"reports":[` + held("") + `,` + held(fields) + `]}` }

func lines(items string) string { return reporting(`,"lines":[{"text":"a"},` + items + `]`) }

func ending(fields string) string { return reporting(`,"end":{` + fields + `}`) }

// malformedMessages are messages that workers must not send: route, a sentence, the body, and the field that
// the problem must name.
var malformedMessages = []struct{ route, name, body, field string }{
	{"", "a name that is a number", `{"name":5}`, "name"},
	{"", "a name that is null", `{"name":null}`, "name"},
	{"", "a name of 201 characters", `{"name":"` + strings.Repeat("a", 201) + `"}`, "name"},
	{"", "a name of two lines", `{"name":"a\nb"}`, "name"},
	{"", "an unknown field", `{"nam":"a"}`, "nam"},
	{"", "a name twice", `{"name":"a","name":"b"}`, "name"},

	{"/w/pull", "queues that are text", `{"queues":"a,b"}`, "queues"},
	{"/w/pull", "a queue that is a number", `{"queues":["a",5]}`, "queues[1]"},
	{"/w/pull", "an empty queue", `{"queues":[""]}`, "queues[0]"},
	{"/w/pull", "a queue with a blank", `{"queues":["a b"]}`, "queues[0]"},
	{"/w/pull", "a queue of 65 characters", `{"queues":["` + strings.Repeat("a", 65) + `"]}`, "queues[0]"},
	{"/w/pull", "a queue that is only a weight", `{"queues":["=3"]}`, "queues[0]"},
	{"/w/pull", "an empty weight", `{"queues":["a="]}`, "queues[0]"},
	{"/w/pull", "a weight of zero", `{"queues":["a=0"]}`, "queues[0]"},
	{"/w/pull", "a weight below zero", `{"queues":["a=-1"]}`, "queues[0]"},
	{"/w/pull", "a weight of 101", `{"queues":["a=101"]}`, "queues[0]"},
	{"/w/pull", "a weight that is a word", `{"queues":["a=b"]}`, "queues[0]"},
	{"/w/pull", "a weight with a plus", `{"queues":["a=+3"]}`, "queues[0]"},
	{"/w/pull", "two weights", `{"queues":["a=1=2"]}`, "queues[0]"},
	{"/w/pull", "a queue twice", `{"queues":["a","b","a=3"]}`, "queues[2]"},
	{"/w/pull", "no room", `{"max":0}`, "max"},
	{"/w/pull", "room below zero", `{"max":-1}`, "max"},
	{"/w/pull", "room for 1001", `{"max":1001}`, "max"},
	{"/w/pull", "room that is text", `{"max":"5"}`, "max"},
	{"/w/pull", "an unknown field", `{"queue":"a"}`, "queue"},

	{"/w/beat", "no number", `{"heard":0,"holds":[]}`, "number"},
	{"/w/beat", "a number below zero", `{"number":-1,"heard":-2,"holds":[]}`, "number"},
	{"/w/beat", "nothing about what was heard", `{"number":1,"holds":[]}`, "heard"},
	{"/w/beat", "it heard of itself", `{"number":1,"heard":1,"holds":[]}`, "heard"},
	{"/w/beat", "it heard of a number below zero", `{"number":1,"heard":-1,"holds":[]}`, "heard"},
	{"/w/beat", "a number that is text", `{"number":"1","holds":[]}`, "number"},
	{"/w/beat", "a number beyond 64 bits", `{"number":9223372036854775808}`, "number"},
	{"/w/beat", "stopping that is text", first + `"holds":[],"stopping":"yes"}`, "stopping"},
	{"/w/beat", "holds that are an object", first + `"holds":{}}`, "holds"},
	{"/w/beat", "holds that are null", first + `"holds":null}`, "holds"},
	{"/w/beat", "a hold that is a run", first + `"holds":["run_00000000000010000000001"]}`, "holds[0]"},
	{"/w/beat", "a hold without a run", first + `"holds":[{"fence":"5"}]}`, "holds[0].run_id"},
	{
		"/w/beat", "a hold without a fence",
		first + `"holds":[` + held("") + `,{"run_id":"run_00000000000010000000001"}]}`, "holds[1].fence",
	},
	{
		"/w/beat", "a fence that is a number",
		first + `"holds":[{"run_id":"run_00000000000010000000001","fence":1048577}]}`, "holds[0].fence",
	},
	{
		"/w/beat", "an unknown field of a hold", first + `"holds":[` + held(`,"attempt":1`) + `]}`,
		"holds[0].attempt",
	},

	{"/w/report", "reports that are an object", `{"reports":{}}`, "reports"},
	{"/w/report", "a list", `[]`, "body"},
	{
		"/w/report", "10,001 reports",
		`{"reports":[` + strings.Repeat(held("")+",", 10_000) + held("") + `]}`, "reports",
	},
	{"/w/report", "an unknown field", reporting(`,"state":"running"`), "reports[1].state"},
	{
		"/w/report", "a job for a run", `{"reports":[{"run_id":"job_0000000000001","fence":"1048577"}]}`,
		"reports[0].run_id",
	},
	{
		"/w/report", "a fence of no attempt",
		`{"reports":[{"run_id":"run_00000000000010000000001","fence":"1048576"}]}`, "reports[0].fence",
	},
	{
		"/w/report", "a fence below zero",
		`{"reports":[{"run_id":"run_00000000000010000000001","fence":"-1048577"}]}`, "reports[0].fence",
	},
	{
		"/w/report", "a fence with a zero in front",
		`{"reports":[{"run_id":"run_00000000000010000000001","fence":"01048577"}]}`, "reports[0].fence",
	},
	{
		"/w/report", "a fence beyond 64 bits",
		`{"reports":[{"run_id":"run_00000000000010000000001","fence":"99999999999999999999"}]}`,
		"reports[0].fence",
	},
	{"/w/report", "a token that is a number", reporting(`,"token":5`), "reports[1].token"},
	{"/w/report", "a begin that is no time", reporting(`,"begun_at":"now"`), "reports[1].begun_at"},
	{"/w/report", "lines that are text", reporting(`,"lines":["a"]`), "reports[1].lines[0]"},
	{
		"/w/report", "a line without its own kind of stream", lines(`{"stream":"stdlog"}`),
		"reports[1].lines[1].stream",
	},
	{"/w/report", "a line that is null", lines(`{"text":null}`), "reports[1].lines[1].text"},
	{
		"/w/report", "an offset below zero", reporting(`,"lines":[{"offset":-1}]`),
		"reports[1].lines[0].offset",
	},
	{
		"/w/report", "an offset beyond 2^53", reporting(`,"lines":[{"offset":9007199254740993}]`),
		"reports[1].lines[0].offset",
	},
	{
		"/w/report", "an offset that leaves lines out", lines(`{"text":"c","offset":2}`),
		"reports[1].lines[1].offset",
	},
	{"/w/report", "an offset that is text", lines(`{"offset":"1"}`), "reports[1].lines[1].offset"},
	{
		"/w/report", "a checkpoint of 65 KiB",
		reporting(`,"checkpoint":"` + strings.Repeat("a", 65<<10) + `"`), "reports[1].checkpoint",
	},
	{
		"/w/report", "a checkpoint in base64 of 65 KiB",
		reporting(`,"checkpoint_base64":"` + strings.Repeat("aaaa", 22<<10) + `"`),
		"reports[1].checkpoint_base64",
	},
	{
		"/w/report", "a checkpoint that is no base64", reporting(`,"checkpoint_base64":"a"`),
		"reports[1].checkpoint_base64",
	},
	{
		"/w/report", "two checkpoints", reporting(`,"checkpoint":1,"checkpoint_base64":"MQ=="`),
		"reports[1].checkpoint_base64",
	},
	{
		"/w/report", "a checkpoint with a key twice", reporting(`,"checkpoint":{"a":1,"a":2}`),
		"reports[1].checkpoint.a",
	},
	{"/w/report", "an end that is text", reporting(`,"end":"success"`), "reports[1].end"},
	{"/w/report", "an end that is null", reporting(`,"end":null`), "reports[1].end"},
	{"/w/report", "an end without an outcome", ending(``), "reports[1].end.outcome"},
	{"/w/report", "an unknown outcome", ending(`"outcome":"succeeded"`), "reports[1].end.outcome"},
	{
		"/w/report", "an outcome that no worker can tell of", ending(`"outcome":"crashed"`),
		"reports[1].end.outcome",
	},
	{"/w/report", "an outcome that is a number", ending(`"outcome":1`), "reports[1].end.outcome"},
	{
		"/w/report", "a result of 65 KiB",
		ending(`"outcome":"success","result":"` + strings.Repeat("a", 65<<10) + `"`), "reports[1].end.result",
	},
	{
		"/w/report", "two results", ending(`"outcome":"success","result":1,"result_base64":"MQ=="`),
		"reports[1].end.result_base64",
	},
	{
		"/w/report", "a wait that is a number", ending(`"outcome":"retriable","retry_after":5`),
		"reports[1].end.retry_after",
	},
	{
		"/w/report", "a wait below zero", ending(`"outcome":"retriable","retry_after":"-5s"`),
		"reports[1].end.retry_after",
	},
	{
		"/w/report", "a start without a zone",
		ending(`"outcome":"success","started_at":"2026-01-01T00:00:00"`), "reports[1].end.started_at",
	},
	{
		"/w/report", "an unknown field of the end", ending(`"outcome":"success","error":"no"`),
		"reports[1].end.error",
	},
}

func TestAMalformedMessageOfAWorkerIsRefusedWithItsField(t *testing.T) {
	h := newHouse(t, nil)
	for _, m := range malformedMessages {
		t.Run(m.route+" with "+m.name, func(t *testing.T) {
			h := *h
			h.t = t
			h.call("POST", "/v1/workers"+m.route, m.body).problem(400, m.field)
		})
	}
	for _, route := range []string{"", "/w/pull", "/w/beat", "/w/report"} {
		for _, body := range []string{
			"", " ", "null", "5", `"a"`, "[]", "{", `{"a"`, `{"a":`, "{}{}", "{} x", "\ufeff{}",
			"{\"\xff\":1}",
		} {
			if a := h.call(
				"POST", "/v1/workers"+route, body, "Content-Type: application/json",
			); a.Code != 400 {
				t.Errorf("%s takes %q: %d %s", route, body, a.Code, a.Body)
			}
		}
		h.call("POST", "/v1/workers"+route, "{}", "Content-Type: text/plain").problem(415, "Content-Type")
		large := `{"reports":[` + strings.Repeat(" ", 16<<20) + `]}`
		if a := h.call(
			"POST", "/v1/workers"+route, large,
		).problem(413, "body"); !strings.Contains(a.text("want"), "KiB") {
			t.Errorf("the limit is not named: %s", a.Body)
		}
	}
	if got := h.call("GET", "/v1/members", "").items(); len(got) > 0 {
		t.Errorf("%v joined", got)
	}
}

func TestTheNameOfAWorkerIsCountedInCharacters(t *testing.T) {
	h := newHouse(t, nil)
	for _, field := range []string{"name", "host", "version"} {
		body := func(n int) string { return `{"name":"w","` + field + `":"` + strings.Repeat("ü", n) + `"}` }
		if field == "name" {
			body = func(n int) string { return `{"name":"` + strings.Repeat("ü", n) + `"}` }
		}
		h.call("POST", "/v1/workers", body(200)).is(201)
		h.call("POST", "/v1/workers", body(201)).problem(400, field)
	}
}

func TestALongReasonIsCutNotRefused(t *testing.T) {
	h := newHouse(t, nil)
	worker := h.register()
	task := h.pull(worker, mail)
	long := strings.Repeat("ä", 5000)
	if got := h.report(
		worker, task.report(`,"end":{"outcome":"fatal","reason":"`+long+`"}`),
	); got != `{"receipts":["recorded"]}` {
		t.Error(got)
	}
	if reason := h.call("GET", "/v1/runs/"+task.Run, "").text("reason"); len(reason) > 1024 ||
		!strings.HasSuffix(reason, "ä...") {
		t.Errorf("the reason is %d bytes: %.20s", len(reason), reason)
	}
}
