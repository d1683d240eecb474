package node

import (
	"net/url"
	"regexp"
	"strings"
)

const passwordNames = `((?:password|passwd|pwd)\s*=\s*)`

var (
	schemeOfURL = regexp.MustCompile(`(?i)^[a-z][a-z0-9+.-]*://`)
	// A password as a parameter of a URL ends with the parameter: ?password=…, &sslpassword=….
	passwordInURL = regexp.MustCompile(`(?is)` + passwordNames + `[^&]*`)
	// In the form of libpq the password is a word, or quoted: host=h password='…'.
	passwordInList = regexp.MustCompile(
		`(?is)` + passwordNames + `(?:'(?:[^'\\]|\\.?)*(?:'|$)\S*|(?:\\.?|[^\s\\])+)`,
	)
)

// Redact removes the passwords from the URL of a store or of another adapter, or from the text that was given
// in its place. Where it cannot tell which part is a password, it removes more.
func Redact(store string) string {
	const hidden = "${1}xxxxx"
	if strings.HasPrefix(store, "sqlite:") || strings.HasPrefix(store, "disk:") {
		return store // a path, in which @ and : are ordinary characters
	}
	scheme := schemeOfURL.FindString(store)
	// A typing error, the list of libpq, or user:password@tcp(host)/database of a Go driver for MySQL.
	if scheme == "" {
		return hideBeforeHost(passwordInList.ReplaceAllString(store, hidden))
	}
	rest := passwordInURL.ReplaceAllString(store[len(scheme):], hidden)
	u, err := url.Parse(scheme + rest)
	if err != nil {
		return "(not a URL)"
	}
	if strings.Contains(u.EscapedPath()+u.RawQuery+u.EscapedFragment(), "@") {
		return scheme + hideBeforeHost(rest) // most likely the password has a / or ? that is not escaped
	}
	return u.Redacted()
}

// hideBeforeHost hides the password of user:password@host, whatever characters it has.
func hideBeforeHost(text string) string {
	begin, end := strings.Index(text, ":"), strings.LastIndex(text, "@")
	if begin < 0 || end < begin {
		return text
	}
	return text[:begin+1] + "xxxxx" + text[end:]
}
