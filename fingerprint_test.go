package carillon_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/carillon-run/carillon"
)

func TestErrorsThatDifferOnlyInDetailsHaveOneFingerprint(t *testing.T) {
	for want, reasons := range map[string][]string{
		"": {"", "  \n\t", "\x00"},
		"dial tcp #:#: connect: connection refused": {
			"dial tcp 10.0.0.7:5432: connect: connection refused",
			"dial tcp 127.0.0.1:80: connect: connection refused",
		},
		"open /…: no such file or directory": {
			"open /var/lib/report/2026-03.csv: no such file or directory",
			"open ./out/x.tmp: no such file or directory",
			"open ~/x: no such file or directory",
			`open C:\Users\ann\x.csv: no such file or directory`,
		},
		`Get "…": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`: {
			`Get "https://api.example.com/v1/users/42": context deadline exceeded ` +
				`(Client.Timeout exceeded while awaiting headers)`,
		},
		"POST https://… answered # Internal Server Error": {
			"POST https://shop.example.com/orders/17?x=1 answered 500 Internal Server Error",
			"POST https://[::1]:8080/a answered 503 Internal Server Error",
		},
		"exit status #":           {"exit status 1", "exit status 127"},
		"signal: killed (exit #)": {"signal: killed (exit -9)", "signal: killed (exit 9)"},
		"invalid order # for customer #": {
			"invalid order 4711 for customer 9", "invalid order 1 for customer 12",
		},
		"object # is locked": {
			"object 550e8400-e29b-41d4-a716-446655440000 is locked",
			"object 0x7ffd3a21 is locked",
			"object deadbee5 is locked",
			"object 5f2b9c is locked",
		},
		"no handler for run_#": {
			"no handler for run_0f8j2v5r3c0001jgq9k2w0m",
			"no handler for run_0f9zzzzzzz0001jgq9k2w0m",
		},
		"runtime error: index out of range [#] with length #": {
			"runtime error: index out of range [5] with length 3",
			"runtime error: index out of range [17] with length 0",
		},
		`ERROR: duplicate key value violates unique constraint "…" (SQLSTATE #)`: {
			`ERROR: duplicate key value violates unique constraint "users_email_key" (SQLSTATE 23505)`,
		},
		"ValueError: invalid literal for int() with base #: '…'": {
			"ValueError: invalid literal for int() with base 10: 'it's'",
			"ValueError: invalid literal for int() with base 10: ''",
		},
		"can't open '…'": {
			"can't open 'a'",
			"can’t open ‘b c’",
			"can't open 'd/e'",
		},
		"unknown column `…` in '…'": {
			"unknown column `a` in 'field list'",
			"unknown column `b.c` in 'where'",
		},
		`bad value "…" here`: {`bad value "a \"b\" c" here`, `bad value "" here`},
		"timed out after #": {
			"timed out after 1m30s",
			"timed out after 2.5s",
			"timed out after 10 ",
		},
		"sha# of utf# text: tcp# and I/O": {"sha256 of utf8 text: tcp4 and I/O"},
		"at main.go:#: panic":             {"at main.go:12: panic", "at main.go:7: panic"},
		"token # expired at #-#-#:#:#": {
			"token a1b2c3d4e5 expired at 2026-03-01T10:00:00Z",
			"token z9y8x7w6v5 expired at 2025-12-31T23:59:59.123Z",
		},
		"the text is \" open":         {"the text is \" open"},
		"Zeile # ist ungültig: Größe": {"Zeile 7 ist ungültig: Größe"},
		"first line second line #": {
			"first line\n  second line 3\n",
			"first line\x00second line 4",
			"first line\xff\xfesecond line 5",
		},
		strings.Repeat("long ", 39) + "long": {
			strings.Repeat("long ", 100), strings.Repeat("long ", 1000),
		},
	} {
		for _, reason := range reasons {
			f, text := carillon.FingerprintOf(reason)
			if text != want {
				t.Errorf("%q\n gives %q\n want  %q", reason, text, want)
			}
			if same, _ := carillon.FingerprintOf(reasons[0]); f != same || f == 0 {
				t.Errorf("%q has the fingerprint %s, want %s", reason, f, same)
			}
		}
	}
}

func TestErrorsOfOtherKindsHaveOtherFingerprints(t *testing.T) {
	seen := map[carillon.Fingerprint]string{}
	for _, reason := range []string{
		"", "timeout", "connection refused", "connection reset by peer", "exit status 1", "signal: killed",
		"open /a: no such file or directory", "open /a: permission denied", "open 'a': permission denied",
	} {
		f, _ := carillon.FingerprintOf(reason)
		if other, taken := seen[f]; taken {
			t.Errorf("%q and %q are one group", reason, other)
		}
		seen[f] = reason
	}
}

func TestAFingerprintStaysTheSameFromVersionToVersion(t *testing.T) {
	for reason, want := range map[string]string{
		"": "ecba3df2c3383c52", "exit status 1": "2cf79a4e920fdde6",
		"dial tcp 10.0.0.7:5432: connect: connection refused": "0ec676714a9e4c2a",
	} {
		f, _ := carillon.FingerprintOf(reason)
		if f.String() != want {
			t.Errorf("%q: %s, want %s: stored letters would leave their groups", reason, f, want)
		}
		if back, err := carillon.ParseFingerprint(f.String()); err != nil || back != f {
			t.Errorf("%s is read as %s, %v", f, back, err)
		}
	}
	for _, bad := range []string{"", "0", "0000000000000000", "ECBA3DF2C3383C52", "ecba3df2c3383c5", "g"} {
		if f, err := carillon.ParseFingerprint(bad); err == nil {
			t.Errorf("%q is read as %s", bad, f)
		}
	}
}

func FuzzFingerprint(f *testing.F) {
	for _, seed := range []string{
		"dial tcp 10.0.0.7:5432: refused", `open "/a/b\"c": 'x' 0x12 https://a/b?c=1.`, "‘a’ \xff\x00 ü1",
		"550e8400-e29b-41d4-a716-446655440000 abc1def2", "a'b'c `d", strings.Repeat("9x", 3000),
	} {
		f.Add(seed, byte('7'))
	}
	f.Fuzz(func(t *testing.T, reason string, digit byte) {
		print, text := carillon.FingerprintOf(reason)
		if !utf8.ValidString(text) || utf8.RuneCountInString(text) > 200 || print == 0 {
			t.Fatalf("%q gives %q, %s", reason, text, print)
		}
		if strings.ContainsAny(text, "0123456789") {
			t.Errorf("%q has digits: %q", reason, text)
		}
		clean := strings.ReplaceAll(strings.ToValidUTF8(reason, "\uFFFD"), "\x00", "\uFFFD")
		if again, _ := carillon.FingerprintOf(clean); again != print {
			t.Errorf("%q has another fingerprint when it is stored as %q", reason, clean)
		}
		other := strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return '0' + (r-'0'+rune(digit))%10
			}
			return r
		}, clean)
		if same, changed := carillon.FingerprintOf(other); same != print {
			t.Errorf("%q gives %q, with other digits %q", reason, text, changed)
		}
	})
}
