package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/carillon-run/carillon"
)

// Credential is the identity behind a token. Everything that a request touches is in its namespace.
type Credential struct {
	Namespace string
	Name      string // for logs
}

// key is a credential with the hash of its token, which tells it from every other one.
type key struct {
	sum [sha256.Size]byte
	Credential
}

// hashTokens leaves out entries that could let a caller in by accident: an empty token, or a credential
// without a namespace that callers can have.
func hashTokens(tokens map[string]Credential) []key {
	var keys []key
	for token, credential := range tokens {
		if token != "" && carillon.IsNamespace(credential.Namespace) {
			keys = append(keys, key{sha256.Sum256([]byte(token)), credential})
		}
	}
	return keys
}

// authenticate compares every key, even after one has matched, so that the time it takes reveals nothing.
func (s *server) authenticate(r *http.Request) (key, bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || len(r.Header.Values("Authorization")) != 1 {
		return key{}, false
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	var found key
	ok := false
	for _, k := range s.keys {
		if subtle.ConstantTimeCompare(sum[:], k.sum[:]) == 1 {
			found, ok = k, true
		}
	}
	return found, ok
}

func (s *server) refuse(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="carillon"`)
	problem{
		Type: "unauthorized", Title: "No valid token", Status: http.StatusUnauthorized,
		Detail: `this request needs the header "Authorization: Bearer <token>"; ` +
			`carillon serve writes the token to the file "token" in its data directory`,
	}.write(w)
}

type credentialKey struct{}

func withCredential(r *http.Request, c key) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), credentialKey{}, c))
}

// namespace panics without a credential: a handler that runs before the token was checked is a bug, not a
// request for the empty namespace.
func namespace(r *http.Request) string { return credentialOf(r).Namespace }

func credentialOf(r *http.Request) key { return r.Context().Value(credentialKey{}).(key) }
