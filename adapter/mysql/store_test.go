package mysql_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/adapter/mysql"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/porttest"
	"github.com/carillon-run/carillon/porttest/server"
)

func TestStore(t *testing.T) {
	open := emptied(t)
	porttest.Store(t, func(t *testing.T) carillon.Store { return open(t) })
}

func TestLimits(t *testing.T) {
	open := emptied(t)
	porttest.Limits(t, func(t *testing.T) carillon.Store { return open(t) })
}

func TestGates(t *testing.T) {
	open := emptied(t)
	porttest.Gates(t, func(t *testing.T) carillon.Store { return open(t) })
}

func TestModel(t *testing.T) {
	open := emptied(t)
	porttest.Model(t, func(t *testing.T) carillon.Store {
		return &borrowed{Store: open(t), model: mem.NewStore(), own: map[string]string{}}
	})
}

// borrowed gives a store the cursors of a model. The check compares cursors, but every store chooses the
// places in them: this one never gives out a place twice.
type borrowed struct {
	carillon.Store
	model *mem.Store
	own   map[string]string // cursors of the store, by those of the model
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

// BenchmarkStore uses a server that has every commit on disk when it returns. Tables are truncated: after a
// DELETE the server cleans up rows for a while, which would count for the next benchmark.
func BenchmarkStore(b *testing.B) {
	s := server.MariaDB(
		b, "innodb_flush_log_at_trx_commit=1", "innodb_doublewrite=1", "innodb_buffer_pool_size=1G",
		"innodb_log_file_size=1G",
	)
	store := openAt(b, s.URL)
	porttest.BenchmarkStore(b, func(b *testing.B) carillon.Store {
		if err := store.Exec(b.Context(), `TRUNCATE job; TRUNCATE run; TRUNCATE history`); err != nil {
			b.Fatal(err)
		}
		return store
	})
}

const now = carillon.Time(1_800_000_000_000)

// definition returns an admitted definition for a handler, due now.
func definition(t testing.TB) carillon.Definition {
	t.Helper()
	d := carillon.Definition{}
	d.Type, d.Target.Handler = "mail.send", &carillon.Handler{}
	if err := d.Admit(now); err != nil {
		t.Fatal(err)
	}
	return d
}

// submits returns changes that submit n new jobs.
func submits(t testing.TB, n int, edit func(i int, job *carillon.Job)) []carillon.Change {
	t.Helper()
	ids, def := idgen.New(1, carillon.Never), definition(t)
	changes := make([]carillon.Change, n)
	for i := range changes {
		id, err := ids.Next(now)
		if err != nil {
			t.Fatal(err)
		}
		job := &carillon.Job{ID: id, Namespace: "default", Definition: def}
		if edit != nil {
			edit(i, job)
		}
		changes[i] = carillon.Submit(job, now)
	}
	return changes
}

// win commits changes. None of them must lose.
func win(t testing.TB, s *mysql.Store, changes ...carillon.Change) {
	t.Helper()
	if lost, err := s.Commit(t.Context(), changes); len(lost) > 0 || err != nil {
		t.Fatal(lost, err)
	}
}

// ended returns the change that ends the run of a submission at a time, in one attempt.
func ended(submit carillon.Change, at carillon.Time) carillon.Change {
	run := submit.Runs[0]
	run.Rev = 1
	return carillon.Change{Runs: []carillon.Run{run.Claim("w", at).End(carillon.StateSucceeded, "", at)}}
}

func guard(key string, rev int32, value string) carillon.Change {
	return carillon.Change{
		Guards: []carillon.Guard{{Namespace: "default", Key: key, Rev: rev, Value: []byte(value)}},
	}
}

func TestASpaceAtTheEndAndTheCaseCount(t *testing.T) {
	store := openAt(t, database(t))
	names := []string{"a", "a ", "A", "ä", "a\x00"}
	win(t, store, submits(t, len(names), func(i int, job *carillon.Job) {
		job.Queue, job.Labels, job.Owner = names[i], map[string]string{"k": names[i]}, names[i]
	})...)
	for _, name := range names {
		win(t, store, guard(name, 0, name))
		guards, err := store.Guards(t.Context(), carillon.GuardQuery{
			Namespace: "default", Keys: []string{name},
		})
		if len(guards) != 1 || err != nil || string(guards[0].Value) != name {
			t.Errorf("guard %q: %v %v", name, guards, err)
		}
		runs, err := store.Wakes(t.Context(), carillon.WakeQuery{
			Lane: &carillon.Lane{
				Namespace: "default", Queue: name, Needs: "mail.send", Priority: 5,
			}, Until: now,
		})
		if len(runs) != 1 || err != nil || runs[0].Queue != name {
			t.Errorf("lane %q: %v %v", name, runs, err)
		}
		for _, q := range []carillon.JobQuery{
			{Namespace: "default", Labels: []carillon.Label{{Key: "k", Value: name}}},
			{Labels: []carillon.Label{{Key: "k", Value: name}}},
			{Owner: name},
		} {
			jobs, err := store.FindJobs(t.Context(), q)
			if len(jobs.Jobs) != 1 || err != nil || jobs.Jobs[0].Queue != name {
				t.Errorf("%+v: %v %v", q, jobs.Jobs, err)
			}
		}
	}
}

func TestACommitMayBeLargerThanAPacketOfTheServer(t *testing.T) {
	store := openAt(t, database(t))
	// Each quote is written as two bytes.
	payload := append(append([]byte{'"'}, bytes.Repeat([]byte{'\''}, 1<<20)...), '"')
	changes := submits(t, 24, func(_ int, job *carillon.Job) { job.Payload = payload })
	for i := range changes {
		changes[i].Runs[0].Output = &carillon.Output{Result: bytes.Repeat([]byte{0}, 1<<20)}
	}
	win(t, store, changes...)
	jobs, err := store.Jobs(t.Context(), []carillon.JobVersion{{Job: changes[7].Job.ID}})
	if len(jobs) != 1 || err != nil || !bytes.Equal(jobs[0].Payload, payload) {
		t.Error(len(jobs), err)
	}
	runs, err := store.Runs(t.Context(), []carillon.RunID{changes[23].Runs[0].ID}, true)
	if len(runs) != 1 || err != nil || len(runs[0].Output.Result) != 1<<20 {
		t.Error(len(runs), err)
	}
}

func TestAClosedStoreSaysSo(t *testing.T) {
	store := openAt(t, database(t))
	if err := errors.Join(store.Close(), store.Close()); err != nil {
		t.Fatal(err)
	}
	_, commitErr := store.Commit(t.Context(), []carillon.Change{guard("k", 0, "1")})
	_, readErr := store.Guards(t.Context(), carillon.GuardQuery{})
	for _, err := range []error{commitErr, readErr} {
		if err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("got %v", err)
		}
	}
}

func TestAnAddressThatIsNoneIsRefusedWithoutItsPassword(t *testing.T) {
	for address, want := range map[string]string{
		"postgres://u:secret@h/d":          "mysql://user:password@host:port/database",
		"mysql://u:secret@h:3306":          "mysql://user:password@host:port/database",
		"mysql://u:secret@h:3306/a/b":      "mysql://user:password@host:port/database",
		"mysql://u:secret@h:x/d":           "invalid port",
		"mysql://u:secret@h/d?parseTime=1": "want tls",
		"mysql://u:secret@127.0.0.1:1/d":   "connection refused",
	} {
		_, err := mysql.Open(t.Context(), address, mysql.Config{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") ||
			errors.Is(err, carillon.ErrPermanent) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestASearchGivesUpItsTurnAndGoesOnWhereItStood(t *testing.T) {
	store := openAt(t, database(t))
	store.Bound(7, 100)
	changes := submits(t, 100, func(i int, job *carillon.Job) {
		if i%40 == 3 {
			job.Type = "rare"
		}
	})
	for i := range changes {
		if i%40 == 3 {
			changes[i].Runs[0].Worker = "rare"
		}
	}
	win(t, store, changes...)
	found, pages := 0, 0
	for q := (carillon.JobQuery{Type: "rare"}); pages == 0 || q.Before != 0; pages++ {
		page, err := store.FindJobs(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		found, q.Before = found+len(page.Jobs), page.Next
	}
	if found != 3 || pages != 15 { // 100 rows, 7 a page
		t.Errorf("%d jobs on %d pages", found, pages)
	}
	found, pages = 0, 0
	for q := (carillon.RunQuery{Worker: "rare"}); pages == 0 || q.After != ""; pages++ {
		page, err := store.FindRuns(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		found, q.After = found+len(page.Runs), page.Next
	}
	if found != 3 || pages != 15 {
		t.Errorf("%d runs on %d pages", found, pages)
	}
}

func TestAReadOfHeldRunsStopsAfterManyThatWait(t *testing.T) {
	store := openAt(t, database(t))
	store.Bound(7, 100)
	changes := submits(t, 100, nil)
	var want, got []carillon.RunID
	for i := range changes {
		if i%40 < 2 || i == 27 { // the 28th is the last that a read reaches
			changes[i].Runs[0] = changes[i].Runs[0].Claim("w", changes[i].Runs[0].Wake)
			want = append(want, changes[i].Runs[0].ID)
		}
	}
	win(t, store, changes...)
	pages := 0
	for q := (carillon.WakeQuery{Held: true, Until: carillon.Never, Limit: 5}); ; pages++ {
		page, err := store.Wakes(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page {
			if q.Wants(&page[i]) {
				got = append(got, page[i].ID)
			}
			q.After = page[i].WakePos()
		}
		if !q.More(page) {
			break
		}
	}
	if !slices.Equal(got, want) || pages < 10 {
		t.Errorf("%d pages, got %v, want %v", pages, got, want)
	}
}
