package jobjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzLexer compares the lexer with the decoder that it replaces, token by token, and value by value.
func FuzzLexer(f *testing.F) {
	for _, body := range []string{
		`{}`, `[]`, `""`, `0`, `-1.5e+10`, `null`, `true`, `false`,
		` { "a" : [ 1 , 2 , { } ] , "b\n" : "\"\\\u00e9" , "" : null } `,
		`{"a":{"b":{"c":[[],[[]],"]","}",",",":"]}}}`, "\n[true,false,null,0.0,\"\t\"]\r", `"\\"`, `"\\\""`,
		`{"a":1}{`, `[1,]`, `{"a" 1}`, `tru`, `[1 2]`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if checkText(body) != nil {
			return // refused before the lexer runs
		}
		if (checkSyntax(body) == nil) != json.Valid(body) {
			t.Fatalf("%q: %v", body, checkSyntax(body))
		}
		if !json.Valid(body) {
			return
		}
		got := &lexer{body: body}
		want := json.NewDecoder(bytes.NewReader(body))
		want.UseNumber()
		for {
			if got.more() != want.More() {
				t.Fatalf("%q: more is %v at %d", body, got.more(), got.at)
			}
			a := got.token()
			b, err := want.Token()
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("%q: token %#v; want %#v, %v", body, a, b, err)
			}
			if err != nil {
				break
			}
		}
		raw := (&lexer{body: body}).raw()
		var wanted json.RawMessage
		if err := json.Unmarshal(body, &wanted); err != nil || !bytes.Equal(raw, wanted) {
			t.Fatalf("%q: value %q, want %q, %v", body, raw, wanted, err)
		}
	})
}
