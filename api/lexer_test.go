package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"testing"
)

// FuzzLexer compares the lexer with the decoder that it stands for, token by token, and value by value.
func FuzzLexer(f *testing.F) {
	for _, body := range []string{
		`{}`, `[]`, `""`, `0`, `-1.5e+10`, `null`, `true`, `false`, ` { "a" : [ 1 , 2 , { } ] , "b\n" : "\"\\\u00e9" , "" : null } `,
		`{"a":{"b":{"c":[[],[[]],"]","}",",",":"]}}}`, "\n[true,false,null,0.0,\"\t\"]\r", `"\\"`, `"\\\""`, `{"a":1}{`, `[1,]`, `{"a" 1}`, `tru`, `[1 2]`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if checkText(body) != nil {
			return // refused before anybody looks for tokens
		}
		got, is := tokensOf(body).(*lexer)
		if is != json.Valid(body) {
			t.Fatalf("%q: lexer %v", body, is)
		}
		if !is {
			return
		}
		want := json.NewDecoder(bytes.NewReader(body))
		want.UseNumber()
		for {
			if got.More() != want.More() {
				t.Fatalf("%q: more is %v at %d", body, got.More(), got.at)
			}
			a, errA := got.Token()
			b, errB := want.Token()
			if !reflect.DeepEqual(a, b) || errors.Is(errA, io.EOF) != errors.Is(errB, io.EOF) {
				t.Fatalf("%q: token %#v, %v; want %#v, %v", body, a, errA, b, errB)
			}
			if errB != nil {
				break
			}
		}
		var raw, wanted json.RawMessage
		if err := tokensOf(body).Decode(&raw); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(body, &wanted); err != nil || !bytes.Equal(raw, wanted) {
			t.Fatalf("%q: value %q, want %q, %v", body, raw, wanted, err)
		}
	})
}
