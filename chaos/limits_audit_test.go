package chaos

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mysql"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/adapter/sqlite"
)

// auditAll compares guards with rows, as nodes do, but more often: a node that is killed every few seconds
// never comes to it. Only one process can open the file of SQLite.
func (tr *limitsTrial) auditAll(over <-chan struct{}) {
	if tr.sqlite() {
		return
	}
	store, closed, err := tr.open()
	if err != nil {
		tr.t.Error(err)
		return
	}
	defer closed()
	for {
		if err := tr.audit(store); err != nil && tr.ctx.Err() == nil {
			tr.t.Errorf("audit: %v", err)
			return
		}
		select {
		case <-over:
			return
		case <-time.After(2 * time.Second):
		}
	}
}

func (tr *limitsTrial) open() (store carillon.Store, closed func(), err error) {
	if path, is := strings.CutPrefix(tr.store, "sqlite:"); is {
		s, err := sqlite.Open(path)
		return s, func() { s.Close() }, err
	}
	if strings.HasPrefix(tr.store, "postgres") {
		s, err := postgres.Open(tr.ctx, tr.store, postgres.Config{KeepSchema: true})
		return s, func() { s.Close() }, err
	}
	s, err := mysql.Open(tr.ctx, tr.store, mysql.Config{KeepSchema: true})
	return s, func() { s.Close() }, err
}

// audit compares what guards count with the slots of held runs, for guards that did not change meanwhile.
func (tr *limitsTrial) audit(store carillon.Store) error {
	query := carillon.GuardQuery{
		Namespace: carillon.DefaultNamespace, Prefix: string(carillon.GuardLimit) + "/",
	}
	before, err := store.Guards(tr.ctx, query)
	if err != nil {
		return err
	}
	revs := map[string]int32{}
	for _, g := range before {
		revs[g.Key] = g.Rev
	}
	used := carillon.Used{}
	q := carillon.WakeQuery{Held: true, Until: carillon.Never - 1, Limit: 1000}
	for {
		runs, err := store.Wakes(tr.ctx, q)
		if err != nil {
			return err
		}
		for i := range runs {
			if runs[i].State.Held() {
				used.Add(&runs[i])
			}
		}
		if !q.More(runs) {
			break
		}
		q.After = runs[len(runs)-1].WakePos()
	}
	after, err := store.Guards(tr.ctx, query)
	for i := range after {
		g := &after[i]
		if rev, known := revs[g.Key]; known && rev == g.Rev && used.Of(g) != g.UsedSlots() {
			tr.found++
			tr.t.Errorf("%s is %s, and runs have taken %d", g.Key, g.Value, used.Of(g))
		}
	}
	return err
}

// idle checks that all runs have ended without a trace in the counts: no slot is taken, no run waits, and no
// node has seen a difference.
func (tr *limitsTrial) idle() {
	for name, s := range tr.nodes {
		n, err := limitDifferences(tr.ctx, s)
		if err != nil || n != "0" {
			tr.t.Errorf("%s: %s differences (%v)", name, n, err)
		}
	}
	if tr.sqlite() {
		if err := tr.nodes["node-1"].Stop(); err != nil {
			tr.t.Error(err)
		}
	}
	store, closed, err := tr.open()
	if err != nil {
		tr.t.Fatal(err)
	}
	defer closed()
	// A line that was found empty may be noted a moment later.
	var left []string
	for range 100 {
		if left = tr.left(store); len(left) == 0 || tr.sqlite() {
			break
		}
		last(tr.ctx, 100*time.Millisecond)
	}
	for _, text := range left {
		tr.t.Error(text)
	}
}

// left is what is left of limits.
func (tr *limitsTrial) left(store carillon.Store) (left []string) {
	guards, err := store.Guards(tr.ctx, carillon.GuardQuery{
		Namespace: carillon.DefaultNamespace, Prefix: string(carillon.GuardLimit) + "/",
	})
	if err != nil || len(guards) != len(tr.keys) {
		left = append(left, fmt.Sprintf("%d guards for %d keys (%v)", len(guards), len(tr.keys), err))
	}
	for i := range guards {
		if g := &guards[i]; g.UsedSlots() != 0 || g.HasLine() {
			left = append(left, fmt.Sprintf("all runs have ended, and %s is %s", g.Key, g.Value))
		}
	}
	names, err := store.Holds(tr.ctx, carillon.HoldName{}, 10)
	if err != nil || len(names) > 0 {
		left = append(left, fmt.Sprintf("runs wait for %v (%v)", names, err))
	}
	return left
}

// limitDifferences asks a node how many differences it found.
func limitDifferences(ctx context.Context, s *Server) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/metrics", nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+s.Token)
	answer, err := quick.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	for line := range strings.Lines(string(text)) {
		if n, is := strings.CutPrefix(line, "carillon_limit_differences "); is {
			return strings.TrimSpace(n), err
		}
	}
	return "no", err
}
