package node

import (
	"errors"
	"net/url"
	"regexp"
)

var (
	// passwordParameter is a password as a parameter of a URL, or in the form of libpq and of ODBC: password=…, sslpassword=….
	passwordParameter = regexp.MustCompile(`(?i)((?:password|passwd|pwd)\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&;]+)`)
	// passwordBeforeHost is that of a Go driver for MySQL: user:password@tcp(host)/database, which is no URL.
	passwordBeforeHost = regexp.MustCompile(`^([^:/@\s]*:)[^/\s][^\s]*@`)
)

// Redact leaves the passwords out of a store's URL, and of what was given in its place.
func Redact(store string) string {
	u, err := url.Parse(store)
	if err != nil {
		var bad *url.Error
		if errors.As(err, &bad) {
			return "(not a URL)"
		}
		return store
	}
	text := u.Redacted()
	if u.Host == "" {
		text = passwordBeforeHost.ReplaceAllString(text, "${1}xxxxx@")
	}
	return passwordParameter.ReplaceAllString(text, "${1}xxxxx")
}
