package jobjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzLexer compares the lexer with encoding/json, which it replaces: both accept the same bodies, except for
// text that is not Unicode, and both find the same tokens and values.
func FuzzLexer(f *testing.F) {
	for _, body := range []string{
		`{}`, `[]`, `""`, `0`, `-1.5e+10`, `null`, `true`, `false`,
		` { "a" : [ 1 , 2 , { } ] , "b\n" : "\"\\\u00e9" , "" : null } `,
		`{"a":{"b":{"c":[[],[[]],"]","}",",",":"]}}}`, "\n[true,false,null,0.0,\"\t\"]\r", `"\\"`, `"\\\""`,
		`{"a":1}{`, `[1,]`, `{"a" 1}`, `tru`, `[1 2]`, `{"a":1,}`, `[,1]`, `{,}`, `[1}`, `{"a"}`, `nullx`,
		`-`, `01`, `1.`, `.1`, `1e`, `1E-07`, `-0`, `+1`, "\"\x01\"", `"\x"`, `"\u12"`, "\"\\u00\x100\"", "\x00",
		`"\ud83d\ude00"`, `"\ud83d"`, `"\ude00"`, `"\ud83d\u0041"`, "\"\xff\"", "\"\xed\xa0\x80\"", "\"é€😀\ufffd\"",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got := &lexer{body: body}
		tokens, err := tokensOf(got, nil)
		if err == nil {
			err = got.end()
		}
		if fault := checkText(body); fault != nil {
			if err == nil {
				t.Fatalf("%q is accepted: %v", body, fault)
			}
			return
		}
		if valid := json.Valid(body); valid != (err == nil) || valid != (checkSyntax(body) == nil) {
			t.Fatalf("%q: %v, and checkSyntax says %v", body, err, checkSyntax(body))
		}
		if err != nil {
			return
		}
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.UseNumber()
		for i := 0; ; i++ {
			want, err := dec.Token()
			if err != nil && i == len(tokens) {
				break
			}
			if err != nil || i == len(tokens) || !reflect.DeepEqual(tokens[i], want) {
				t.Fatalf("%q: tokens %#v; token %d is %#v, %v", body, tokens, i, want, err)
			}
		}
		value, err := (&lexer{body: body}).whole()
		var want json.RawMessage
		if json.Unmarshal(body, &want) != nil || err != nil || !bytes.Equal(value, want) {
			t.Fatalf("%q: value %q, want %q, %v", body, value, want, err)
		}
	})
}

// tokensOf adds all tokens of the next value, as a json.Decoder has them.
func tokensOf(l *lexer, tokens []json.Token) ([]json.Token, error) {
	token, err := l.token()
	tokens = append(tokens, token)
	closing := map[json.Token]byte{json.Delim('{'): '}', json.Delim('['): ']'}[token]
	for first := true; err == nil && closing != 0; first = false {
		var more bool
		if more, err = l.more(first, closing); err == nil && !more {
			return append(tokens, json.Delim(closing)), nil
		}
		if err == nil && closing == '}' {
			var name []byte
			name, err = l.name()
			tokens = append(tokens, string(name))
		}
		if err == nil {
			tokens, err = tokensOf(l, tokens)
		}
	}
	return tokens, err
}
