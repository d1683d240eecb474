package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/porttest"
)

func TestStore(t *testing.T) {
	url := database(t)
	porttest.Store(t, func(t *testing.T) carillon.Store { return emptied(t, url, postgres.Config{}) })
}

func TestLimits(t *testing.T) {
	url := database(t)
	porttest.Limits(t, func(t *testing.T) carillon.Store { return emptied(t, url, postgres.Config{}) })
}

func TestGates(t *testing.T) {
	url := database(t)
	porttest.Gates(t, func(t *testing.T) carillon.Store { return emptied(t, url, postgres.Config{}) })
}

func TestModel(t *testing.T) {
	url := database(t)
	porttest.Model(t, func(t *testing.T) carillon.Store {
		return &borrowed{
			Store: emptied(t, url, postgres.Config{}), model: mem.NewStore(), own: map[string]string{},
		}
	})
}

// borrowed lends a store the cursors of a model. The check compares cursors, but the places in them differ
// from store to store: here they are times, and none is used twice.
type borrowed struct {
	carillon.Store
	model *mem.Store
	own   map[string]string // the store's cursor, by the model's
}

func (b *borrowed) Commit(ctx context.Context, changes []carillon.Change) ([]int, error) {
	if _, err := b.model.Commit(ctx, changes); err != nil {
		return nil, err
	}
	return b.Store.Commit(ctx, changes)
}

func (b *borrowed) Forget(
	ctx context.Context, rule carillon.Retention, now carillon.Time, limit int,
) (int, error) {
	if _, err := b.model.Forget(ctx, rule, now, limit); err != nil {
		return 0, err
	}
	return b.Store.Forget(ctx, rule, now, limit)
}

func (b *borrowed) FindRuns(ctx context.Context, q carillon.RunQuery) (carillon.RunPage, error) {
	model, err := b.model.FindRuns(ctx, q)
	if err != nil {
		return carillon.RunPage{}, err
	}
	q.After = b.own[q.After]
	page, err := b.Store.FindRuns(ctx, q)
	if page.Next != "" && model.Next != "" {
		b.own[model.Next], page.Next = page.Next, model.Next
	}
	return page, err
}

func TestABatchIsBoundedByAllThatAJobCarries(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	for name, set := range map[string]func(d *carillon.Definition){
		"payload": func(d *carillon.Definition) { d.Payload = []byte(large) },
		"labels":  func(d *carillon.Definition) { d.Labels = map[string]string{"a": large} },
		"argv": func(d *carillon.Definition) {
			d.Target.Command = &carillon.Command{Argv: []string{large}}
		},
		"shell": func(d *carillon.Definition) { d.Target.Command = &carillon.Command{Shell: large} },
		"env": func(d *carillon.Definition) {
			d.Target.Command = &carillon.Command{Env: map[string]string{"A": large}}
		},
		"headers": func(d *carillon.Definition) {
			d.Target.HTTP = &carillon.HTTP{Headers: map[string]string{"A": large}}
		},
		"body": func(d *carillon.Definition) { d.Target.HTTP = &carillon.HTTP{Body: large} },
	} {
		changes := submissions(t, idgen.New(1, carillon.Never), 100)
		for i := range changes {
			set(&changes[i].Job.Definition)
		}
		if got := postgres.Span(changes); got > 32 {
			t.Errorf("%s: %d MiB at once", name, got)
		}
	}
}

func BenchmarkStore(b *testing.B) {
	url := database(b)
	porttest.BenchmarkStore(b, func(b *testing.B) carillon.Store {
		return emptied(b, url, postgres.Config{})
	})
}
