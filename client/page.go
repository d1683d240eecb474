package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

// Page is a piece of a list. It can be short or empty and still have a next page; only an empty Next is the
// end. A Cursor is where a page begins; that of the first page is empty.
type (
	Page[T any] = wire.Page[T]
	Cursor      = wire.Cursor
)

// pages makes one sequence of all pages. An error ends it.
func pages[T any](
	ctx context.Context, page func(ctx context.Context, cursor Cursor) (Page[T], error),
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		for cursor := Cursor(""); ; {
			p, err := page(ctx, cursor)
			if err != nil {
				yield(none, err)
				return
			}
			for _, item := range p.Items {
				if !yield(item, nil) {
					return
				}
			}
			if p.Next == "" {
				return
			}
			cursor = p.Next
		}
	}
}

// params are query parameters; empty ones are left out.
type params struct{ url.Values }

func newParams(cursor Cursor, limit int) params {
	p := params{url.Values{}}
	p.text("cursor", string(cursor))
	if limit > 0 {
		p.text("limit", strconv.Itoa(min(limit, wire.MaxPage)))
	}
	return p
}

func (p params) text(name, value string) {
	if value != "" {
		p.Set(name, value)
	}
}

func (p params) time(name string, t carillon.Time) {
	if t != 0 {
		p.Set(name, t.String())
	}
}

func (p params) list(name string, values []string) { p.text(name, strings.Join(values, ",")) }

func texts[T interface{ String() string }](values []T) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = v.String()
	}
	return list
}
