package api_test

import (
	"context"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
)

// with returns a valid definition with the given fields added, which may be wrong.
func with(fields string) string { return `{"target":{"command":{"argv":["echo"]}},` + fields + `}` }

func schedule(fields string) string { return with(`"schedule":{` + fields + `}`) }

func command(fields string) string { return `{"target":{"command":{` + fields + `}}}` }

func request(fields string) string { return `{"target":{"http":{` + fields + `}}}` }

// malformed are submissions that must be refused: a sentence, the body, and the field that the problem names.
var malformed = []struct{ name, body, field string }{
	// Bodies that are not a JSON object.
	{"an empty body", "", "body"},
	{"a body of blanks", " \n\t ", "body"},
	{"a bare word", "hello", "body"},
	{"null", "null", "body"},
	{"a number", "5", "body"},
	{"a text", `"job"`, "body"},
	{"a list", `[]`, "body"},
	{"a list of jobs at the route for one", "[" + echo + "]", "body"},
	{"an object that is not closed", `{"name":"a"`, "body"},
	{"a list that is not closed", `{"target":{"command":{"argv":["echo"`, "body"},
	{"a text that is not closed", `{"name":"a`, "body"},
	{"a field without a value", `{"name":}`, "body"},
	{"a field without a colon", `{"name" "a"}`, "body"},
	{"a comma too many", `{"name":"a",}`, "body"},
	{"a comma too few", `{"name":"a" "type":"b"}`, "body"},
	{"single quotes", `{'name':'a'}`, "body"},
	{"names without quotes", `{name:"a"}`, "body"},
	{"a comment", `{"name":"a" /* why */}`, "body"},
	{"a byte order mark", "\ufeff" + echo, "body"},
	{"a wrong closing bracket", `{"target":{"command":{"argv":["echo"}}}`, "body"},
	{"a second object behind the first", echo + echo, "body"},
	{"a stray brace at the end", echo + "}", "body"},
	{"words after the end", echo + " and more", "body"},
	{"a control character in a text", with("\"name\":\"a\x01b\""), "body"},
	{"a bad escape", with(`"name":"\x41"`), "body"},
	{"a number with a leading zero", with(`"priority":05`), "body"},
	{"a number with a plus", with(`"priority":+5`), "body"},
	{"NaN", with(`"retry":{"jitter":NaN}`), "body"},
	{"True as Python writes it", with(`"name":True`), "body"},

	// Text that is not Unicode.
	{"bytes that are not UTF-8", with("\"name\":\"\xff\xfe\""), "body"},
	{"bytes that are not UTF-8 in the payload", with("\"payload\":\"\xc3\x28\""), "body"},
	{"half a surrogate pair", with(`"name":"\ud800"`), "body"},
	{"the wrong half of a surrogate pair", with(`"name":"\udc00x"`), "body"},
	{"two first halves of a surrogate pair", with(`"name":"\ud800\ud800"`), "body"},

	// Fields that are unknown, given twice, or not there.
	{"an empty object", `{}`, "target"},
	{"an unknown field", with(`"nam":"a"`), "nam"},
	{"a namespace", with(`"namespace":"other"`), "namespace"},
	{"an id", with(`"id":"job_0000000000001"`), "id"},
	{"a state", with(`"state":"paused"`), "state"},
	{"a field in the wrong case", with(`"Name":"a"`), "Name"},
	{"an empty field name", with(`"":"a"`), `""`},
	{"an unknown field of the target", `{"target":{"comand":{"argv":["echo"]}}}`, "target.comand"},
	{"an unknown field of the command", command(`"agrv":["echo"]`), "target.command.agrv"},
	{
		"an unknown field of the request", request(`"url":"https://example.com","verb":"GET"`),
		"target.http.verb",
	},
	{
		"an unknown field of the handler", `{"type":"a","target":{"handler":{"name":"f"}}}`,
		"target.handler.name",
	},
	{"an unknown field of the schedule", schedule(`"crom":"* * * * *"`), "schedule.crom"},
	{"an unknown field of the retry", with(`"retry":{"attempts":3}`), "retry.attempts"},
	{"an unknown field of the misfire", with(`"misfire":{"mode":"skip"}`), "misfire.mode"},
	{"an unknown field of the retention", with(`"retention":{"days":3}`), "retention.days"},
	{"a schedule field at the top", with(`"cron":"* * * * *"`), "cron"},
	{"a field twice", with(`"name":"a","name":"b"`), "name"},
	{"a field twice, once escaped", with(`"name":"a","n\u0061me":"b"`), "name"},
	{"a field of the target twice", command(`"argv":["a"],"argv":["b"]`), "target.command.argv"},
	{"a label twice", with(`"labels":{"a":"1","a":"2"}`), "labels.a"},
	{"a key of the payload twice", with(`"payload":{"a":{"b":1,"b":2}}`), "payload.a.b"},

	// Wrong types.
	{"a name that is a number", with(`"name":5`), "name"},
	{"a name that is null", with(`"name":null`), "name"},
	{"a name that is a list", with(`"name":["a"]`), "name"},
	{"a name that is an object", with(`"name":{"a":"b"}`), "name"},
	{"a type that is true", with(`"type":true`), "type"},
	{"labels that are a list", with(`"labels":["a"]`), "labels"},
	{"labels that are null", with(`"labels":null`), "labels"},
	{"a label that is a number", with(`"labels":{"a":1}`), "labels.a"},
	{"a label that is null", with(`"labels":{"a":null}`), "labels.a"},
	{"a priority that is text", with(`"priority":"5"`), "priority"},
	{"a priority that is null", with(`"priority":null`), "priority"},
	{"a priority with a fraction", with(`"priority":5.5`), "priority"},
	{"a priority with an exponent", with(`"priority":1e0`), "priority"},
	{"a priority beyond 64 bits", with(`"priority":99999999999999999999`), "priority"},
	{"a schedule that is text", with(`"schedule":"* * * * *"`), "schedule"},
	{"a schedule that is null", with(`"schedule":null`), "schedule"},
	{"a target that is text", `{"target":"echo"}`, "target"},
	{"a target that is null", `{"target":null}`, "target"},
	{"a command that is text", `{"target":{"command":"echo"}}`, "target.command"},
	{"a command that is null", `{"target":{"command":null}}`, "target.command"},
	{"an argv that is text", command(`"argv":"echo"`), "target.command.argv"},
	{"an argv with a number", command(`"argv":["sleep",5]`), "target.command.argv[1]"},
	{"an argv with null", command(`"argv":["a","b",null]`), "target.command.argv[2]"},
	{"an env that is a list", command(`"argv":["a"],"env":["A=b"]`), "target.command.env"},
	{"an env value that is a number", command(`"argv":["a"],"env":{"N":1}`), "target.command.env.N"},
	{
		"an exit code that is text", command(`"argv":["a"],"fatal_exit_codes":["1"]`),
		"target.command.fatal_exit_codes[0]",
	},
	{"headers that are text", request(`"url":"https://example.com","headers":"A: b"`), "target.http.headers"},
	{"a body that is an object", request(`"url":"https://example.com","body":{}`), "target.http.body"},
	{"a handler that is a name", `{"type":"a","target":{"handler":"f"}}`, "target.handler"},
	{"a timeout that is a number", with(`"timeout":30`), "timeout"},
	{"a timeout that is null", with(`"timeout":null`), "timeout"},
	{"a retry that is a number", with(`"retry":3`), "retry"},
	{"attempts that are text", with(`"retry":{"max_attempts":"3"}`), "retry.max_attempts"},
	{"a jitter that is text", with(`"retry":{"jitter":"0.2"}`), "retry.jitter"},
	{"a jitter beyond all numbers", with(`"retry":{"jitter":1e999}`), "retry.jitter"},
	{"an overlap that is a number", with(`"overlap":1`), "overlap"},
	{"a misfire that is a number", with(`"misfire":1`), "misfire"},
	{"a retention that is text", with(`"retention":"30d"`), "retention"},
	{"a time that is a number", schedule(`"at":1700000000`), "schedule.at"},
	{"a time that is an object", schedule(`"at":{}`), "schedule.at"},
	{"max_runs that is text", schedule(`"every":"1m","max_runs":"3"`), "schedule.max_runs"},

	// Sizes and depth.
	{"a name of 201 characters", with(`"name":"` + strings.Repeat("a", 201) + `"`), "name"},
	{"a type of 65 characters", with(`"type":"` + strings.Repeat("a", 65) + `"`), "type"},
	{"33 labels", with(`"labels":{` + entries(33) + `}`), "labels"},
	{"1001 labels", with(`"labels":{` + entries(1001) + `}`), "labels"},
	{
		"a label value of 129 characters", with(`"labels":{"a":"` + strings.Repeat("a", 129) + `"}`),
		"labels.a",
	},
	{"a payload of 257 KiB", with(`"payload":"` + strings.Repeat("a", 257<<10) + `"`), "payload"},
	{"a target of 65 KiB", command(`"argv":["echo","` + strings.Repeat("a", 65<<10) + `"]`), "target"},
	{
		"a payload 32 levels deep", with(`"payload":` + strings.Repeat("[", 32) + strings.Repeat("]", 32)),
		"payload" + strings.Repeat("[0]", 31),
	},
	{"a payload of 100,000 brackets", with(`"payload":` + strings.Repeat("[", 100_000)), "body"},
	{
		"objects 40 levels deep",
		with(`"payload":` + strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)),
		"payload" + strings.Repeat(".a", 31),
	},

	// Names.
	{"an empty owner", with(`"owner":""`), "owner"},
	{"a name with a line break", with(`"name":"a\nb"`), "name"},
	{"a name with NUL", with(`"name":"a\u0000b"`), "name"},
	{"a type with a space", with(`"type":"a b"`), "type"},
	{"a type that begins with a dot", with(`"type":".a"`), "type"},
	{"a queue that climbs", with(`"queue":"../a"`), "queue"},
	{"a queue with an umlaut", with(`"queue":"größe"`), "queue"},
	{"a label key with a space", with(`"labels":{"a b":"c"}`), "labels"},
	{"a label with a line break", with(`"labels":{"a":"b\nc"}`), "labels.a"},
	{"a priority of 10", with(`"priority":10`), "priority"},
	{"a priority of -1", with(`"priority":-1`), "priority"},

	// Fields that were given but are empty.
	{"a cron that is empty", schedule(`"cron":""`), "schedule.cron"},
	{"an every of zero", schedule(`"every":"0s"`), "schedule.every"},
	{"a cron, and an every of zero", schedule(`"cron":"* * * * *","every":"0s"`), "schedule"},
	{"a cron, and an after of zero", schedule(`"cron":"* * * * *","after":"0s"`), "schedule"},
	{"an after of zero, and a cron", schedule(`"after":"0s","cron":"* * * * *"`), "schedule"},
	{"a zone that is empty", schedule(`"cron":"* * * * *","timezone":""`), "schedule.timezone"},
	{"max_runs of zero", schedule(`"every":"1m","max_runs":0`), "schedule.max_runs"},
	{"an at of 1970", schedule(`"at":"1970-01-01T00:00:00Z"`), "schedule.at"},
	{"a name that is empty", with(`"name":""`), "name"},
	{"a type that is empty", with(`"type":""`), "type"},
	{"an owner that is empty", with(`"owner":""`), "owner"},
	{"a queue that is empty", with(`"queue":""`), "queue"},
	{"a shell line that is empty", command(`"argv":["echo"],"shell":""`), "target.command.shell"},
	{"a directory that is empty", command(`"argv":["echo"],"dir":""`), "target.command.dir"},
	{"a method that is empty", request(`"url":"https://example.com","method":""`), "target.http.method"},
	{"a body that is empty", request(`"url":"https://example.com","body":""`), "target.http.body"},

	// Schedules.
	{"a cron with 61 minutes", schedule(`"cron":"61 * * * *"`), "schedule.cron"},
	{"a cron with four fields", schedule(`"cron":"* * * *"`), "schedule.cron"},
	{"a cron with seven fields", schedule(`"cron":"* * * * * * *"`), "schedule.cron"},
	{"a cron with an unknown day", schedule(`"cron":"0 0 * * FOO"`), "schedule.cron"},
	{"a cron on 30 February", schedule(`"cron":"0 0 30 2 *"`), "schedule.cron"},
	{"a cron with a step of zero", schedule(`"cron":"*/0 * * * *"`), "schedule.cron"},
	{"a cron with an unknown macro", schedule(`"cron":"@fortnightly"`), "schedule.cron"},
	{"a cron of blanks", schedule(`"cron":"  "`), "schedule.cron"},
	{"an unknown zone", schedule(`"cron":"0 3 * * *","timezone":"Europe/Atlantis"`), "schedule.timezone"},
	{
		"a zone that is a path", schedule(`"cron":"0 3 * * *","timezone":"../../etc/passwd"`),
		"schedule.timezone",
	},
	{"the zone Local", schedule(`"cron":"0 3 * * *","timezone":"Local"`), "schedule.timezone"},
	{"a zone with every", schedule(`"every":"1m","timezone":"UTC"`), "schedule.timezone"},
	{"a zone with at", schedule(`"at":"2030-01-01T00:00:00Z","timezone":"UTC"`), "schedule.timezone"},
	{"cron and every", schedule(`"cron":"* * * * *","every":"1m"`), "schedule"},
	{"at and after", schedule(`"at":"2030-01-01T00:00:00Z","after":"5s"`), "schedule"},
	{"an every of half a second", schedule(`"every":"500ms"`), "schedule.every"},
	{"an every below zero", schedule(`"every":"-5s"`), "schedule.every"},
	{"an every without a unit", schedule(`"every":"30"`), "schedule.every"},
	{"an every of microseconds", schedule(`"every":"1500000us1us"`), "schedule.every"},
	{"an every of 200 years", schedule(`"every":"73000d"`), "schedule.every"},
	{"an after that is empty", schedule(`"after":""`), "schedule.after"},
	{"an after in words", schedule(`"after":"soon"`), "schedule.after"},
	{"an at without a zone", schedule(`"at":"2030-01-01T00:00:00"`), "schedule.at"},
	{"an at that is a date", schedule(`"at":"2030-01-01"`), "schedule.at"},
	{"an at on 31 February", schedule(`"at":"2030-02-31T00:00:00Z"`), "schedule.at"},
	{"an at before 1970", schedule(`"at":"1969-12-31T00:00:00Z"`), "schedule.at"},
	{
		"an end before the start",
		schedule(`"every":"1m","starts_at":"2031-01-01T00:00:00Z","ends_at":"2030-01-01T00:00:00Z"`),
		"schedule.ends_at",
	},
	{"an end in the past", schedule(`"every":"1m","ends_at":"2001-01-01T00:00:00Z"`), "schedule.ends_at"},
	{
		"an end with at", schedule(`"at":"2030-01-01T00:00:00Z","ends_at":"2031-01-01T00:00:00Z"`),
		"schedule.ends_at",
	},
	{"max_runs below zero", schedule(`"every":"1m","max_runs":-1`), "schedule.max_runs"},
	{"max_runs of a one-time job", schedule(`"max_runs":3`), "schedule.max_runs"},
	{
		"a schedule that is never due",
		schedule(`"cron":"0 0 1 1 *","starts_at":"2030-01-02T00:00:00Z","ends_at":"2030-02-01T00:00:00Z"`),
		"schedule",
	},

	// Targets.
	{"an empty target", `{"target":{}}`, "target"},
	{"two targets", `{"target":{"command":{"argv":["a"]},"http":{"url":"https://example.com"}}}`, "target"},
	{"an empty command", command(``), "target.command"},
	{"argv and shell", command(`"argv":["a"],"shell":"b"`), "target.command"},
	{"an empty argv", command(`"argv":[]`), "target.command"},
	{"an empty program", command(`"argv":["","a"]`), "target.command.argv"},
	{"an argument with NUL", command(`"argv":["a","b\u0000"]`), "target.command.argv"},
	{"an env name with =", command(`"argv":["a"],"env":{"A=B":"c"}`), "target.command.env"},
	{
		"an env name of Carillon's own", command(`"argv":["a"],"env":{"CARILLON_FENCE":"1"}`),
		"target.command.env",
	},
	{"a relative directory", command(`"argv":["a"],"dir":"work"`), "target.command.dir"},
	{
		"an exit code of 256", command(`"argv":["a"],"fatal_exit_codes":[256]`),
		"target.command.fatal_exit_codes",
	},
	{"a request without a URL", request(`"method":"GET"`), "target.http.url"},
	{"a URL of a file", request(`"url":"file:///etc/passwd"`), "target.http.url"},
	{"a URL without a host", request(`"url":"https://"`), "target.http.url"},
	{"a URL with a password", request(`"url":"https://me:secret@example.com"`), "target.http.url"},
	{"an unknown method", request(`"url":"https://example.com","method":"BREW"`), "target.http.method"},
	{
		"a header with a line break", request(`"url":"https://example.com","headers":{"A":"b\r\nC: d"}`),
		"target.http.headers",
	},
	{
		"a header name with a space", request(`"url":"https://example.com","headers":{"A B":"c"}`),
		"target.http.headers",
	},
	{
		"a header of Carillon's own", request(`"url":"https://example.com","headers":{"carillon-fence":"1"}`),
		"target.http.headers",
	},
	{"a handler without a type", `{"target":{"handler":{}}}`, "type"},

	// Policies.
	{"a timeout of two years", with(`"timeout":"730d"`), "timeout"},
	{"a timeout finer than a millisecond", with(`"timeout":"1us"`), "timeout"},
	{"no attempts", with(`"retry":{"max_attempts":0}`), "retry.max_attempts"},
	{"1001 attempts", with(`"retry":{"max_attempts":1001}`), "retry.max_attempts"},
	{"an unknown backoff", with(`"retry":{"backoff":"linear"}`), "retry.backoff"},
	{"a cap below the delay", with(`"retry":{"delay":"1h","max_delay":"1m"}`), "retry.max_delay"},
	{"a jitter of 2", with(`"retry":{"jitter":2}`), "retry.jitter"},
	{"a jitter below zero", with(`"retry":{"jitter":-0.1}`), "retry.jitter"},
	{"no crashes allowed", with(`"retry":{"max_crashes":0}`), "retry.max_crashes"},
	{"an unknown overlap", with(`"overlap":"sometimes"`), "overlap"},
	{"an empty overlap", with(`"overlap":""`), "overlap"},
	{"a unique that is a text", with(`"unique":"k"`), "unique"},
	{"a unique without a key", with(`"unique":{"for":"5m"}`), "unique.key"},
	{"a unique that is empty", with(`"unique":{"key":""}`), "unique.key"},
	{"a unique key with blanks", with(`"unique":{"key":"a b"}`), "unique.key"},
	{"a unique key that is too long", with(`"unique":{"key":"` + strings.Repeat("k", 101) + `"}`), "unique.key"},
	{"a unique key for no time", with(`"unique":{"key":"k","for":"0s"}`), "unique.for"},
	{"a unique key for a moment", with(`"unique":{"key":"k","for":"10ms"}`), "unique.for"},
	{"a unique key for too long", with(`"unique":{"key":"k","for":"366d"}`), "unique.for"},
	{"a unique key for a number", with(`"unique":{"key":"k","for":5}`), "unique.for"},
	{"a unique key until another word", with(`"unique":{"key":"k","until":"done"}`), "unique.until"},
	{"a unique key until nothing", with(`"unique":{"key":"k","until":""}`), "unique.until"},
	{"a unique key for and until", with(`"unique":{"key":"k","until":"ended","for":"5m"}`), "unique"},
	{"an unknown conflict", with(`"unique":{"key":"k","on_conflict":"drop"}`), "unique.on_conflict"},
	{"an empty conflict", with(`"unique":{"key":"k","on_conflict":""}`), "unique.on_conflict"},
	{"an unknown field in unique", with(`"unique":{"key":"k","scope":"all"}`), "unique.scope"},
	{"an unknown misfire", with(`"misfire":"retry"`), "misfire.policy"},
	{"an unknown misfire policy", with(`"misfire":{"policy":"retry"}`), "misfire.policy"},
	{"a misfire maximum of zero", with(`"misfire":{"policy":"all","max":0}`), "misfire.max"},
	{"a misfire window of zero", with(`"misfire":{"policy":"all","window":"0s"}`), "misfire.window"},
	{"a retention of 200 years", with(`"retention":{"runs":"73000d"}`), "retention.runs"},
	{"a retention below zero", with(`"retention":{"logs":"-1d"}`), "retention.logs"},
}

func entries(n int) string {
	var all []string
	for i := range n {
		all = append(all, `"key`+strings.Repeat("a", i/26)+string(rune('a'+i%26))+`":"v"`)
	}
	return strings.Join(all, ",")
}

func TestAMalformedSubmissionIsRefusedWithItsField(t *testing.T) {
	h := newHouse(t, nil)
	if len(malformed) < 120 {
		t.Errorf("only %d malformed submissions", len(malformed))
	}
	for _, m := range malformed {
		t.Run(m.name, func(t *testing.T) {
			h := *h
			h.t = t
			h.call("POST", "/v1/jobs", m.body, "Content-Type: application/json").problem(400, m.field)
			if m.field == "body" || !strings.HasSuffix(m.body, "}") {
				return // in a batch the problem would name another field
			}
			h.call(
				"POST", "/v1/jobs/batch", `{"jobs":[`+echo+","+m.body+"]}",
			).problem(400, "jobs[1]."+m.field)
		})
	}
	h.empty()
}

// empty fails the test if anything was stored.
func (h *house) empty() {
	h.t.Helper()
	for _, namespace := range []string{"", "blue", "red", carillon.DefaultNamespace, "other"} {
		jobs, err1 := h.store.FindJobs(context.Background(), carillon.JobQuery{
			Namespace: namespace, Limit: 10,
		})
		runs, err2 := h.store.FindRuns(context.Background(), carillon.RunQuery{
			Namespace: namespace, Limit: 10,
		})
		guards, err3 := h.store.Guards(context.Background(), carillon.GuardQuery{
			Namespace: namespace, Prefix: "overlap/",
		})
		if err1 != nil || err2 != nil || err3 != nil || len(jobs.Jobs)+len(runs.Runs)+len(guards) > 0 {
			h.t.Errorf(
				"namespace %q holds %v %v %v (%v %v %v)", namespace, jobs.Jobs, runs.Runs, guards, err1, err2,
				err3,
			)
		}
	}
	if runs, err := h.store.Wakes(context.Background(), carillon.WakeQuery{
		Until: carillon.Never, Limit: 10,
	}); err != nil ||
		len(runs) > 0 {
		h.t.Errorf("the store holds %v (%v)", runs, err)
	}
}

func TestAMalformedBatchIsRefusedAsAWhole(t *testing.T) {
	h := newHouse(t, nil)
	for _, m := range []struct{ name, body, field string }{
		{"an empty object", `{}`, "jobs"},
		{"no jobs", `{"jobs":[]}`, "jobs"},
		{"jobs that are null", `{"jobs":null}`, "jobs"},
		{"jobs that are one job", `{"jobs":` + echo + `}`, "jobs"},
		{"a list", `[` + echo + `]`, "body"},
		{"a job that is text", `{"jobs":["echo"]}`, "jobs[0]"},
		{"a job that is null", `{"jobs":[` + echo + `,null]}`, "jobs[1]"},
		{"an unknown field", `{"jobs":[` + echo + `],"atomic":true}`, "atomic"},
		{"1001 jobs", `{"jobs":[` + strings.Repeat(echo+",", 1000) + echo + `]}`, "jobs"},
		{
			"the fourth with a bad cron",
			`{"jobs":[` + strings.Repeat(echo+",", 3) + schedule(`"cron":"* *"`) + `]}`,
			"jobs[3].schedule.cron",
		},
		{
			"the last with an unknown field",
			`{"jobs":[` + strings.Repeat(echo+",", 999) + command(`"agrv":["a"]`) + `]}`,
			"jobs[999].target.command.agrv",
		},
	} {
		t.Run(m.name, func(t *testing.T) {
			h := *h
			h.t = t
			h.call("POST", "/v1/jobs/batch", m.body).problem(400, m.field)
		})
	}
	h.empty()
}

func TestABodyOfTheWrongKindIsRefused(t *testing.T) {
	h := newHouse(t, nil)
	for _, m := range []struct {
		name, path, header string
		body               string
		status             int
		field              string
	}{
		{"without a content type", "/v1/jobs", "Content-Type: ", echo, 415, "Content-Type"},
		{"as text", "/v1/jobs", "Content-Type: text/plain", echo, 415, "Content-Type"},
		{
			"as a form, as curl sends it unasked", "/v1/jobs",
			"Content-Type: application/x-www-form-urlencoded", echo, 415, "Content-Type",
		},
		{"as YAML", "/v1/jobs", "Content-Type: application/yaml", echo, 415, "Content-Type"},
		{
			"with a broken content type", "/v1/jobs", "Content-Type: application/json; charset", echo, 415,
			"Content-Type",
		},
		{
			"in Latin-1", "/v1/jobs", "Content-Type: application/json; charset=iso-8859-1", echo, 415,
			"Content-Type",
		},
		{"compressed", "/v1/jobs", "Content-Encoding: gzip", echo, 415, "Content-Encoding"},
		{
			"a batch as text", "/v1/jobs/batch", "Content-Type: text/plain", `{"jobs":[` + echo + `]}`, 415,
			"Content-Type",
		},
		{
			"with a payload over 1 MiB", "/v1/jobs", "",
			with(`"payload":"` + strings.Repeat("a", 1<<20) + `"`), 400, "payload",
		},
		{"over 1 MiB of blanks", "/v1/jobs", "", strings.Repeat(" ", 1<<20) + echo, 413, "body"},
		{"over 9 MiB of blanks", "/v1/jobs", "", strings.Repeat(" ", 9<<20) + echo, 413, "body"},
		{
			"a batch over 16 MiB", "/v1/jobs/batch", "",
			`{"jobs":[` + strings.Repeat(" ", 16<<20) + echo + `]}`, 413, "body",
		},
	} {
		t.Run(m.name, func(t *testing.T) {
			h := *h
			h.t = t
			a := h.call("POST", m.path, m.body, m.header).problem(m.status, m.field)
			if m.status == 413 && !strings.Contains(a.text("want"), "KiB") {
				t.Errorf("the limit is not named: %s", a.Body)
			}
		})
	}
	h.empty()
}

func TestAnEmptyFieldWithoutADefaultIsNotSaidToHaveOne(t *testing.T) {
	h := newHouse(t, nil)
	for body, want := range map[string]string{
		request(`"url":""`):   "an absolute http:// or https:// URL",
		command(`"shell":""`): "a line for /bin/sh; leave the field out where argv is given",
		with(`"owner":""`):    "a value that is not empty; leave the field out for its default",
		with(
			`"type":""`,
		): "a word such as email.send; a command or an HTTP request can leave the field out",
		schedule(`"every":"0s"`): "at least 1s; leave the field out for a job that runs once",
	} {
		if got := h.call("POST", "/v1/jobs", body).is(400).text("want"); got != want {
			t.Errorf("%s: want %q, got %q", body, want, got)
		}
	}
}
