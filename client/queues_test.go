package client_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

func TestQueuesAndLimitsOfARealServer(t *testing.T) {
	s, ctx := newServer(t), t.Context()
	set := must(s.SetQueue(ctx, "a/b", 3))(t)
	if set.Name != "a/b" || set.Weight != 3 || set.SetBy != "test" || set.SetAt == 0 {
		t.Errorf("set %+v", set)
	}
	limit := must(s.SetLimit(ctx, client.Limit{
		Of: carillon.LimitQueue, Key: "a/b", Concurrency: 2, Rate: "10/s", Burst: 5,
	}))(t)
	if limit.Concurrency != 2 || limit.Rate != "10/s" || limit.Burst != 5 || limit.SetBy != "test" {
		t.Errorf("set %+v", limit)
	}
	queue := must(s.Queue(ctx, "a/b"))(t)
	if diff := cmp.Diff(set, queue.QueueSettings); diff != "" {
		t.Errorf("(-set +read):\n%s", diff)
	}
	if diff := cmp.Diff(&limit, queue.Limit); diff != "" {
		t.Errorf("(-set +read):\n%s", diff)
	}
	if list := must(s.Queues(ctx))(t); len(list) != 1 || list[0].Name != "a/b" {
		t.Errorf("queues %+v", list)
	}
	if diff := cmp.Diff([]client.Limit{limit}, must(s.Limits(ctx))(t)); diff != "" {
		t.Errorf("(-set +listed):\n%s", diff)
	}
	if diff := cmp.Diff(limit, must(s.RemoveLimit(ctx, carillon.LimitQueue, "a/b"))(t)); diff != "" {
		t.Errorf("(-set +removed):\n%s", diff)
	}
	if _, err := s.RemoveLimit(ctx, carillon.LimitQueue, "a/b"); !errors.Is(err, carillon.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
	var problem *client.Problem
	if _, err := s.SetQueue(ctx, "a/b", 0); !errors.As(err, &problem) || problem.Field != "weight" {
		t.Errorf("weight 0: %v", err)
	}
}

func TestNamespacesOfARealServer(t *testing.T) {
	s, ctx := newServer(t), t.Context()
	plain := []client.Namespace{{Name: "default", Weight: 1}}
	if diff := cmp.Diff(plain, must(s.Namespaces(ctx))(t)); diff != "" {
		t.Errorf("without settings (-want +listed):\n%s", diff)
	}
	set := must(s.SetNamespace(ctx, "default", 3))(t)
	if set.Name != "default" || set.Weight != 3 || set.SetBy != "test" || set.SetAt == 0 || set.Limit != nil {
		t.Errorf("set %+v", set)
	}
	limit := must(s.SetLimit(ctx, client.Limit{
		Of: carillon.LimitNamespace, Key: "default", Concurrency: 2,
	}))(t)
	set.Limit = &limit
	if diff := cmp.Diff(set, must(s.Namespace(ctx, "default"))(t)); diff != "" {
		t.Errorf("(-set +read):\n%s", diff)
	}
	if diff := cmp.Diff([]client.Namespace{set}, must(s.Namespaces(ctx))(t)); diff != "" {
		t.Errorf("(-set +listed):\n%s", diff)
	}
	var problem *client.Problem
	for name, weight := range map[string]int{"default": 0, "other": 2} {
		if _, err := s.SetNamespace(ctx, name, weight); !errors.As(err, &problem) {
			t.Errorf("weight %d of %s: %v", weight, name, err)
		}
	}
}
