package jobjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/carillon-run/carillon"
)

func TestWhatIsNotNamedKeepsItsDefault(t *testing.T) {
	got := carillon.Definition{}
	err := decode(
		[]byte(`{"retry":{"delay":"5s"},"misfire":"skip","retention":{"logs":"1d"},"labels":{"a":"b"}}`),
		&got, maxDepth,
	)
	want := carillon.Definition{}
	want.Retry.Delay, want.Misfire.Policy = carillon.Duration(5e9), carillon.MisfireSkip
	want.Retention.Logs, want.Labels = carillon.Duration(86400e9), map[string]string{"a": "b"}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(carillon.Schedule{})); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestAnEditReplacesScheduleTargetAndMapsAndMergesTheRest(t *testing.T) {
	labels := map[string]string{"old": "1"}
	before := carillon.Definition{}
	before.Labels, before.Misfire.Policy = labels, carillon.MisfireAll
	before.Schedule = carillon.Schedule{Cron: "0 3 * * *", Timezone: "Europe/Berlin", MaxRuns: 7}
	before.Target = carillon.Target{
		Command: &carillon.Command{Argv: []string{"a", "b"}, Env: map[string]string{"A": "b"}, Dir: "/"},
	}
	target := before.Target.Command

	got := before
	err := decode(
		[]byte(
			`{"schedule":{"every":"1m"},"target":{"command":{"shell":"date"}},"labels":{"new":"2"},"misfire":{"max":3}}`,
		),
		&got, maxDepth,
	)
	want := before
	want.Schedule = carillon.Schedule{Every: carillon.Duration(60e9)}
	want.Target = carillon.Target{Command: &carillon.Command{Shell: "date"}}
	want.Labels = map[string]string{"new": "2"}
	want.Misfire.Max = 3
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(carillon.Schedule{})); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if labels["old"] != "1" || target.Shell != "" || len(target.Argv) != 2 {
		t.Error("what the present definition shares was written to")
	}
}

func TestThePayloadKeepsItsBytes(t *testing.T) {
	for _, payload := range []string{
		`{ "n" : 12345678901234567890.10 , "b":1e400 }`, `"\u00e9é\/"`, `[1,2,  3]`, `-0`, `true`, `""`,
		`{"":{}}`,
		strings.Repeat("[", 31) + strings.Repeat("]", 31),
	} {
		var got carillon.Definition
		if err := decode([]byte(`{"payload":`+payload+`}`), &got, maxDepth); err != nil ||
			string(got.Payload) != payload {
			t.Errorf("%s became %s, %v", payload, got.Payload, err)
		}
	}
}

func TestAFaultInsideAPayloadHasItsPlace(t *testing.T) {
	fields := make([]string, 20)
	for i := range fields {
		fields[i] = fmt.Sprintf(`"f%d":[]`, i)
	}
	many := strings.Join(fields, ",")
	big := `"` + strings.Repeat("x", carillon.MaxPayload) + `"`
	for payload, want := range map[string]string{
		`{"[0]":[0,{"a.b":1,"a.b":2}]}`: `payload.[0][1].a.b: it is given twice: want each field once`,
		`{"":{"":1,"\u0061":1,"a":2}}`:  `payload."".a: it is given twice: want each field once`,
		`{` + many + `,"f0":1}`:         `payload.f0: it is given twice: want each field once`,
		`{` + many + `,"f19":1}`:        `payload.f19: it is given twice: want each field once`,
		`{` + many + `}`:                ``,
		// The size of a payload comes before its inside, and text that is not Unicode before both.
		`{"a":1,"a":` + big + `}`:          `payload: it has 262158 bytes: want at most 256 KiB of JSON; keep larger data elsewhere and pass its address`,
		`{"a":` + big + `,"b":"\ud800"}`:   `body: \ud800 is half of a surrogate pair: want both halves, or none`,
		`{"a":` + big + ",\"b\":\"\xff\"}": `body: it is not UTF-8: want JSON in UTF-8`,
		`{"a":` + big + `,"b":nul}`:        `body: invalid character '}' in literal null (expecting 'l') at line 1, column 262209 (byte 262209): want JSON`,
	} {
		_, err := Define([]byte(`{"target":{"command":{"shell":"date"}},"payload":`+payload+`}`), 1e12)
		if err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%.80s:\n got %v\nwant %s", payload, err, want)
		}
	}
}

func TestWhatIsNotJSONComesBeforeAFaultInFrontOfIt(t *testing.T) {
	for body, want := range map[string]string{
		`{"nam":1,"x":}`:                "body: invalid character '}' looking for beginning of value at line 1, column 14 (byte 14): want JSON",
		`{"nam":1} x`:                   "body: invalid character 'x' after top-level value at line 1, column 11 (byte 11): want JSON",
		`{"timeout":{"a":"\ud800"}}`:    `body: \ud800 is half of a surrogate pair: want both halves, or none`,
		`{"timeout":{"a":1,"a":2}}`:     `timeout: "{\"a\":1,\"a\":2}" is not valid: want a duration such as "90s", "1h30m" or "30d", not negative`,
		"{\"nam\":1,\"name\":\"\xff\"}": `body: it is not UTF-8: want JSON in UTF-8`,
	} {
		var def carillon.Definition
		if err := Decode([]byte(body), &def); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", body, err, want)
		}
	}
}

func TestNullIsNoneWhereNoneIsPossible(t *testing.T) {
	var got carillon.Definition
	if err := decode(
		[]byte(`{"payload":null,"schedule":{"at":null,"starts_at":null}}`), &got, maxDepth,
	); err != nil {
		t.Fatal(err)
	}
	if got.Schedule.At != 0 || string(got.Payload) != "null" {
		t.Errorf("null became %v and %s", got.Schedule.At, got.Payload)
	}
}

func TestAnUnknownFieldSaysWhatWasPerhapsMeant(t *testing.T) {
	for body, want := range map[string]string{
		`{"target":{"command":{"agrv":[]}}}`: "one of argv, shell, env, dir, fatal_exit_codes; did you mean argv?",
		`{"Name":"a"}`:                       "did you mean name?",
		`{"cron":"* * * * *"}`:               "did you mean schedule.cron?",
		`{"argv":[]}`:                        "did you mean target.command.argv?",
		`{"shedule":{}}`:                     "did you mean schedule?",
		`{"target":{"handler":{"name":1}}}`:  "an empty object",
		`{"zzzzzz":1}`:                       "retention, on_failure, on_success, late",
	} {
		var fault *carillon.FieldError
		var def carillon.Definition
		if err := decode([]byte(body), &def, maxDepth); !errors.As(err, &fault) ||
			!strings.HasSuffix(fault.Want, want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

func TestAFaultSaysWhatWasGiven(t *testing.T) {
	for _, c := range []struct{ body, given, want string }{
		{`{"name":5}`, "5", `text, in quotes: "5"`},
		{`{"retry":{"max_attempts":5000000000}}`, "5000000000", "a whole number up to 2147483647"},
		{`{"retry":{"max_attempts":2.5}}`, "2.5", "a whole number"},
		{`{"name":null}`, "null", "text"},
		{`{"name":{}}`, "an object", "text"},
		{`{"name":[]}`, "a list", "text"},
		{`{"name":true}`, "true", `text, in quotes: "true"`},
		{`{"priority":"5"}`, `"5"`, "a whole number"},
		{`{"priority":1.5}`, "1.5", "a whole number"},
		{`{"timeout":null}`, "null", `a duration such as "90s", "1h30m" or "30d", not negative`},
		{`{"timeout":5}`, "5", `a duration such as "90s", "1h30m" or "30d", not negative`},
		{`{"labels":[]}`, "a list", "an object of text"},
		{`{"target":{"command":{"argv":"ls"}}}`, `"ls"`, "a list"},
		{`{"retry":3}`, "3", "an object"},
	} {
		var fault *carillon.FieldError
		var def carillon.Definition
		if err := decode([]byte(c.body), &def, maxDepth); !errors.As(err, &fault) || fault.Given != c.given ||
			fault.Want != c.want {
			t.Errorf("%s: given %q want %q", c.body, fault.Given, fault.Want)
		}
	}
}

func TestANumberWhereTextBelongsIsToBeQuoted(t *testing.T) {
	for body, want := range map[string]string{
		`{"target":{"command":{"argv":["sleep",3]}}}`:     `target.command.argv[1]: 3 is a number: want text, in quotes: "3"`,
		`{"target":{"command":{"env":{"DEBUG":true}}}}`:   `target.command.env.DEBUG: true is a boolean: want text, in quotes: "true"`,
		`{"target":{"http":{"headers":{"X-Count":1e3}}}}`: `target.http.headers.X-Count: 1e3 is a number: want text, in quotes: "1e3"`,
		`{"labels":{"team":7}}`:                           `labels.team: 7 is a number: want text, in quotes: "7"`,
		`{"labels":{"team":null}}`:                        `labels.team: null is not valid: want text`,
	} {
		var def carillon.Definition
		if err := decode([]byte(body), &def, maxDepth); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", body, err, want)
		}
	}
}

func TestWhatIsNotJSONIsAFaultOfTheBodyWithItsPlace(t *testing.T) {
	for body, want := range map[string]string{
		`{"name":"charge",}`:     `body: invalid character '}' looking for beginning of object key string at line 1, column 18 (byte 18): want JSON`,
		"{\n \"priority\":05\n}": `body: invalid character '5' after object key:value pair at line 2, column 14 (byte 16): want JSON`,
		`{"name":"a`:             `body: unexpected end of JSON input at line 1, column 10 (byte 10): want JSON`,
	} {
		var def carillon.Definition
		if err := decode([]byte(body), &def, maxDepth); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", body, err, want)
		}
	}
}

func TestSurrogatePairsAndEscapedBackslashesAreText(t *testing.T) {
	for body, name := range map[string]string{
		`{"name":"\ud83d\ude00"}`: "😀", `{"name":"\\ud800"}`: `\ud800`, `{"name":"\ufffd"}`: "\ufffd",
		`{"name":"\\\\"}`: `\\`,
	} {
		var def carillon.Definition
		if err := decode([]byte(body), &def, maxDepth); err != nil || def.Name != name {
			t.Errorf("%s became %q, %v", body, def.Name, err)
		}
	}
}

// FuzzDecode compares the decoder with encoding/json: the decoder never panics, every refusal names a field,
// and encoding/json accepts everything that the decoder accepts, with the same values.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"target":{"command":{"argv":["echo"],"env":{"A":"b"}}},"schedule":{"cron":"* * * * *"}}`,
		`{"misfire":"skip"}`,
		`{"payload":{"a":[1,2,{"b":null}]},"retry":{"jitter":0.5}}`, `{"name":"\ud83d\ude00","name":1}`,
		`{"a":1]`, `[[[[`, `{"":{}}`,
		`{"schedule":{"at":"2030-01-01T00:00:00Z","after":"5s"},"labels":{"a":"b"}}`,
		`{"jobs":[{},{"name":"a"}]}`, "{\"name\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, into := range []any{&carillon.Definition{}, &Batch{}, &struct{}{}} {
			err := decode(body, into, maxDepth)
			var fault *carillon.FieldError
			if err != nil && (!errors.As(err, &fault) || fault.Field == "" || fault.Want == "") {
				t.Errorf("%q is refused with %v", body, err)
			}
			if err != nil {
				if !utf8.ValidString(fault.Given) && utf8.Valid(body) || len(fault.Field) > 5000 {
					t.Errorf("%q is refused with an unreadable %v", body, err)
				}
				continue
			}
			agree(t, body, into)
		}
	})
}

func agree(t *testing.T, body []byte, got any) {
	if !json.Valid(body) {
		t.Fatalf("%q is accepted and is not JSON", body)
	}
	def, ok := got.(*carillon.Definition)
	if !ok || strings.Contains(string(body), "misfire") { // only Carillon has the short form
		return
	}
	want := &carillon.Definition{}
	if err := json.Unmarshal(body, want); err != nil {
		t.Fatalf("%q: encoding/json says %v", body, err)
	}
	if string(want.Payload) == string(def.Payload) {
		want.Payload, def.Payload = nil, nil
	}
	if !reflect.DeepEqual(want, def) {
		t.Errorf("%q: %+v, encoding/json %+v", body, def, want)
	}
}

// Define does not show the payload to Admit. The result must be the same as if Admit had seen it.
func TestDefineAdmitsWhatAdmitAdmits(t *testing.T) {
	const now = carillon.Time(1e12)
	text := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	for _, payload := range []string{
		`null`, ` null `, `"null"`, `0`, `{}`, `[ 1 ]`, `""`, text(carillon.MaxPayload), text(carillon.MaxPayload + 1),
	} {
		for _, rest := range []string{
			`"type":"a","target":{"handler":{}}`, `"type":"a b","target":{"handler":{}}`, `"type":"a"`,
		} {
			body := []byte(`{"payload":` + payload + `,` + rest + `}`)
			var want carillon.Definition
			wrong := Decode(body, &want)
			if wrong == nil {
				wrong = want.Admit(now)
			}
			got, err := Define(body, now)
			if fmt.Sprint(err) != fmt.Sprint(wrong) || err == nil && !reflect.DeepEqual(got, want) {
				t.Errorf("payload %.20s, %s: %v, want %v", payload, rest, err, wrong)
			}
			batch, err := DefineBatch([]byte(`{"jobs":[`+string(body)+`]}`), now)
			if (err == nil) != (wrong == nil) || err == nil && !reflect.DeepEqual(batch[0], want) {
				t.Errorf("payload %.20s, %s, in a batch: %v, want %v", payload, rest, err, wrong)
			}
		}
	}
}
