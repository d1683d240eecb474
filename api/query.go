package api

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/jobjson"
	"github.com/carillon-run/carillon/internal/suggest"
	"github.com/carillon-run/carillon/internal/wire"
)

// param is a query parameter or a header that a route knows.
type param struct {
	Name  string
	About string
	// Type is a value of the Go type that the description shows. nil means text. A list means that the
	// parameter can be given several times.
	Type any
}

// query holds the parameters of a request. Reading remembers the first error, so a handler checks err once,
// at the end.
type query struct {
	values url.Values
	place  string // the namespace and the path that the parameters belong to
	err    error
}

// readQuery refuses parameters that the route does not know, as the decoder of the body does. If it ignored a
// misspelt filter, the request would show, or with DELETE change, more than the caller asked for. The same is
// true of an empty filter.
func readQuery(r *http.Request, params []param) (*query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || !utf8.ValidString(r.URL.RawQuery) {
		return nil, invalid("query", r.URL.RawQuery, "name=value pairs, percent-encoded")
	}
	var known, many []string
	for _, p := range params {
		known = append(known, p.Name)
		if _, list := p.Type.([]string); list {
			many = append(many, p.Name)
		}
	}
	for name, given := range values {
		switch {
		case len(known) == 0:
			return nil, unknown(name, "no query parameters")
		case !slices.Contains(known, name):
			return nil, unknown(name, "one of "+strings.Join(known, ", ")+suggest.DidYouMean(name, known))
		case len(given) > 1 && !slices.Contains(many, name):
			return nil, &carillon.FieldError{
				Field: name, Given: strings.Join(given, " and "), Want: "one value",
				Wrong: fmt.Sprintf("%d values are given", len(given)),
			}
		case slices.ContainsFunc(given, func(s string) bool { return s == "" || !utf8.ValidString(s) }):
			return nil, invalid(name, given[0], "a value; leave the parameter out for none")
		}
	}
	credential, _ := r.Context().Value(credentialKey{}).(key)
	return &query{values: values, place: credential.Namespace + r.URL.Path}, nil
}

func unknown(parameter, want string) error {
	return &carillon.FieldError{
		Field: jobjson.Shorten(parameter, maxGiven), Given: parameter, Want: want,
		Wrong: "unknown query parameter",
	}
}

func (q *query) fail(field, given, want string) {
	if q.err == nil {
		q.err = invalid(field, given, want)
	}
}

func (q *query) text(name string) string { return q.values.Get(name) }

// list splits at commas.
func (q *query) list(name string) []string {
	if !q.values.Has(name) {
		return nil
	}
	return strings.Split(q.values.Get(name), ",")
}

// choice returns one of a few words. The first of them is the default.
func (q *query) choice(name string, words ...string) string {
	given := q.text(name)
	if given == "" {
		return words[0]
	}
	if !slices.Contains(words, given) {
		q.fail(name, given, strings.Join(words, " or "))
	}
	return given
}

func (q *query) number(name string, otherwise, most int) int {
	if !q.values.Has(name) {
		return otherwise
	}
	n, err := strconv.Atoi(q.text(name))
	if err != nil || n < 1 || n > most {
		q.fail(name, q.text(name), fmt.Sprintf("a number from 1 to %d", most))
	}
	return n
}

func (q *query) time(name string) carillon.Time {
	if !q.values.Has(name) {
		return 0
	}
	t, err := carillon.ParseTime(q.text(name))
	q.in(name, err)
	return t
}

func (q *query) job(name string) carillon.JobID {
	if !q.values.Has(name) {
		return 0
	}
	id, err := carillon.ParseJobID(q.text(name))
	q.in(name, err)
	return id
}

// states reads the words that people see for runs: states, and statuses that stand for some runs of a state.
func (q *query) states(name string, want *carillon.RunQuery) {
	for _, word := range q.list(name) {
		var state carillon.State
		status := carillon.Status(word)
		switch {
		case state.UnmarshalText([]byte(word)) == nil:
			want.States = append(want.States, state)
		case status.Within() != nil:
			want.Statuses = append(want.Statuses, status)
		default:
			q.fail(name, word, runWords+", separated by commas")
		}
	}
}

// runWords are the states of runs, and the statuses that stand for some runs of a state.
const runWords = "waiting, queued, held, paused, claimed, running, stopping, succeeded, failed, canceled, " +
	"skipped"

// in remembers, under the parameter's name, an error from reading its value.
func (q *query) in(name string, err error) {
	if fault, ok := err.(*carillon.FieldError); ok && fault != nil {
		q.fail(name, fault.Given, fault.Want)
	} else if err != nil && q.err == nil {
		q.err = err
	}
}

const defaultLimit = 100

func (q *query) limit() int { return q.number("limit", defaultLimit, wire.MaxPage) }

// cursor returns the store's own place in the list, where an earlier page ended. A cursor is bound to the
// list that it came from: with other filters it would silently skip rows.
func (q *query) cursor() string {
	given := q.text("cursor")
	if given == "" {
		return ""
	}
	place, err := base64.RawURLEncoding.Strict().DecodeString(given)
	mark := q.mark()
	if err != nil || len(place) <= len(mark) || string(place[:len(mark)]) != mark {
		q.fail("cursor", given, "the next_cursor of the page before, with the same other parameters")
		return ""
	}
	return string(place[len(mark):])
}

func (q *query) nextCursor(place string) wire.Cursor {
	if place == "" {
		return ""
	}
	return wire.Cursor(base64.RawURLEncoding.EncodeToString([]byte(q.mark() + place)))
}

func (q *query) mark() string {
	filters := url.Values{}
	for name, value := range q.values {
		if name != "cursor" && name != "limit" {
			filters[name] = value
		}
	}
	sum := sha256.Sum256([]byte(q.place + "?" + filters.Encode()))
	return string(sum[:6])
}
