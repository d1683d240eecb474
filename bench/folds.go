package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mysql"
	pgstore "github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/adapter/sqlite"
	"github.com/carillon-run/carillon/internal/ledger"
)

// foldsScenario: changes of one row each, through a ledger, without folds, with a fold of one of 1,000
// guards, and with a fold of the same guard; by 16 callers one at a time, and 250 at a time.
func foldsScenario(ctx context.Context, b *bench) error {
	at, err := b.fresh(ctx)
	if err != nil {
		return err
	}
	store, writers, err := at.open(ctx)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	l := ledger.New(ledger.Config{Store: store, Flushers: writers})
	var door sync.WaitGroup
	door.Go(func() { _ = l.Run(running) })
	for _, size := range []int{1, 250} {
		for _, guards := range []int{0, 1000, 1} {
			if err = b.fold(ctx, l, size, guards); err != nil {
				break
			}
		}
	}
	stop()
	door.Wait()
	return errors.Join(err, store.Close(), b.discard(ctx, at))
}

// fold commits changes with a fold of one of the guards; 0: without folds.
func (b *bench) fold(ctx context.Context, l *ledger.Ledger, size, guards int) error {
	var last atomic.Int64
	calls, err := hammer(16, func() error {
		changes := make([]carillon.Change, size)
		for i := range changes {
			n := last.Add(1)
			changes[i].Guards = []carillon.Guard{{
				Namespace: "bench", Key: fmt.Sprintf("%d/%d/%d", size, guards, n), Value: []byte("{}"),
			}}
			if guards > 0 {
				changes[i].Folds = []carillon.Fold{{
					Namespace: "folds", Key: strconv.FormatInt(n%int64(guards), 10), Step: count,
				}}
			}
		}
		lost, err := l.Commit(ctx, changes)
		if err == nil && len(lost) > 0 {
			err = fmt.Errorf("%d of %d changes lost", len(lost), size)
		}
		return err
	})
	name := map[int]string{0: "fold_none", 1: "fold_hot", 1000: "fold_1000"}[guards]
	if size > 1 {
		name += "_bulk"
	}
	b.figure(name, calls*float64(size), "changes/s")
	return err
}

// count counts in the value of a guard.
func count(g carillon.Guard, _ carillon.Time) (carillon.Guard, bool) {
	n, _ := strconv.Atoi(string(g.Value))
	g.Value = strconv.AppendInt(nil, int64(n+1), 10)
	return g, true
}

// closingStore is a store that an adapter opened.
type closingStore interface {
	carillon.Store
	Close() error
}

// open opens the store of a place without a node, and says how many commits it does well at the same time.
func (at place) open(ctx context.Context) (store closingStore, writers int, err error) {
	switch {
	case at.store == "":
		store, err = sqlite.Open(filepath.Join(at.data, "carillon.db"))
		return store, 1, err
	case strings.HasPrefix(at.store, "postgres"):
		store, err = pgstore.Open(ctx, at.store, pgstore.Config{})
	default:
		store, err = mysql.Open(ctx, at.store, mysql.Config{})
	}
	return store, 2, err
}
