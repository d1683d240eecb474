package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/internal/wire"
)

// paging are the flags of lists.
type paging struct {
	limit  limit
	cursor string
}

func (p *paging) flags(cmd *cobra.Command) {
	p.limit = listed
	cmd.Flags().Var(&p.limit, "limit", "show at most this `number` of items; 0 means all")
	cmd.Flags().StringVar(
		&p.cursor, "cursor", "",
		"start where an earlier list ended: give the `next_cursor` that -o json printed, and the same "+
			"other flags",
	)
}

// listed is how many items a list shows by default.
const listed = 50

// limit is how many items to show; 0 is all.
type limit int

func (l *limit) String() string { return strconv.Itoa(int(*l)) }
func (l *limit) Type() string   { return "number" }

func (l *limit) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return errors.New("want 0 or more; 0 means all")
	}
	*l = limit(n)
	return nil
}

// readList reads as many pages as the limit needs, and makes one page of them, which -o json prints. If there
// are more items, the cursor of the result is where they go on.
func readList[T any](
	ctx context.Context, p paging, page func(cursor client.Cursor, size int) (client.Page[T], error),
) (client.Page[T], error) {
	all := wire.NewPage[T](nil, "")
	for cursor := client.Cursor(p.cursor); ; {
		size := wire.MaxPage
		if p.limit > 0 {
			size = min(wire.MaxPage, int(p.limit)-len(all.Items))
		}
		next, err := page(cursor, size)
		if err != nil {
			return all, err
		}
		all.Items = append(all.Items, next.Items...)
		if cursor = next.Next; cursor == "" {
			return all, nil
		}
		if p.limit > 0 && len(all.Items) >= int(p.limit) {
			if more, err := anyAfter(cursor, page); !more || err != nil {
				return all, err
			}
			all.Next = cursor
			return all, nil
		}
	}
}

// anyAfter says whether any item follows: a cursor alone says only that the server has not read everything.
func anyAfter[T any](
	cursor client.Cursor, page func(cursor client.Cursor, size int) (client.Page[T], error),
) (bool, error) {
	for cursor != "" {
		next, err := page(cursor, 1)
		if err != nil || len(next.Items) > 0 {
			return err == nil, err
		}
		cursor = next.Next
	}
	return false, nil
}

// showList prints a list. If the list is empty, it says so to people with the name of the items, what.
func showList[T any](a *app, all client.Page[T], what string, table func(items []T)) error {
	err := a.show(all, func() {
		if len(all.Items) == 0 {
			fmt.Fprintln(a.err, "no "+what)
			return
		}
		table(all.Items)
	})
	if err == nil && all.Next != "" { // without it a user could take a part for the whole
		fmt.Fprintf(
			a.err, "carillon: there are more %s than the %d shown; --limit sets how many to show, 0 means "+
				"all\n",
			what, len(all.Items),
		)
	}
	return err
}
