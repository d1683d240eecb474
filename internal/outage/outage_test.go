package outage_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/internal/outage"
	"github.com/carillon-run/carillon/porttest"
)

// book keeps lines as "LEVEL message key=value …".
type book struct {
	mu    sync.Mutex
	lines []string
}

func (b *book) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (b *book) WithAttrs([]slog.Attr) slog.Handler           { return b }
func (b *book) WithGroup(string) slog.Handler                { return b }

func (b *book) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, line)
	return nil
}

func (b *book) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := b.lines
	b.lines = nil
	return lines
}

var errAway = errors.New("connect:\n\tdial 10.0.0.1: refused\n\tdial 10.0.0.1: refused")

// database is a store and a coordinator that can be away, or take no writes.
type database struct {
	carillon.Store
	carillon.Coordinator
	away, full atomic.Bool
}

func (d *database) answer(writes bool) error {
	if d.away.Load() || writes && d.full.Load() {
		return errAway
	}
	return nil
}

type databaseStore struct{ *database }

func (s databaseStore) Commit(ctx context.Context, changes []carillon.Change) ([]int, error) {
	if err := s.answer(true); err != nil {
		return nil, err
	}
	return s.Store.Commit(ctx, changes)
}

func (s databaseStore) Jobs(ctx context.Context, ids []carillon.JobVersion) ([]carillon.Job, error) {
	if err := s.answer(false); err != nil {
		return nil, err
	}
	return s.Store.Jobs(ctx, ids)
}

func (s databaseStore) Runs(ctx context.Context, ids []carillon.RunID, whole bool) ([]carillon.Run, error) {
	if err := s.answer(false); err != nil {
		return nil, err
	}
	return s.Store.Runs(ctx, ids, whole)
}

func (s databaseStore) Guards(ctx context.Context, q carillon.GuardQuery) ([]carillon.Guard, error) {
	if err := s.answer(false); err != nil {
		return nil, err
	}
	return s.Store.Guards(ctx, q)
}

func (s databaseStore) Wakes(ctx context.Context, q carillon.WakeQuery) ([]carillon.Run, error) {
	if err := s.answer(false); err != nil {
		return nil, err
	}
	return s.Store.Wakes(ctx, q)
}

func (s databaseStore) Forget(
	ctx context.Context, rule carillon.Retention, now carillon.Time, limit int,
) (int, error) {
	if err := s.answer(true); err != nil {
		return 0, err
	}
	return s.Store.Forget(ctx, rule, now, limit)
}

type databaseSessions struct{ *database }

func (s databaseSessions) Join(ctx context.Context, members []carillon.Member) error {
	if err := s.answer(true); err != nil {
		return err
	}
	return s.Coordinator.Join(ctx, members)
}

func (s databaseSessions) Beat(ctx context.Context, beats []carillon.Beat) ([]carillon.Standing, error) {
	if err := s.answer(true); err != nil {
		return nil, err
	}
	return s.Coordinator.Beat(ctx, beats)
}

func (s databaseSessions) Members(
	ctx context.Context, q carillon.MemberQuery,
) ([]carillon.Member, carillon.Time, error) {
	if err := s.answer(false); err != nil {
		return nil, 0, err
	}
	return s.Coordinator.Members(ctx, q)
}

func TestOfAnOutageOfFiveMinutesAWholeNodeWritesALineAMinuteAndOneAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, log := &database{Store: mem.NewStore(), Coordinator: mem.NewCoordinator()}, &book{}
		away := outage.New("the store", slog.New(log))
		h := &porttest.House{
			T: t, Store: away.Store(databaseStore{db}), Coordinator: away.Coordinator(databaseSessions{db}),
			Logger: slog.New(outage.Handler(log)),
		}
		h.Live(4)
		defer h.Stop()
		h.Submit(func(d *carillon.Definition) { d.Schedule.Every = carillon.Duration(10 * time.Second) })
		time.Sleep(time.Minute + 500*time.Millisecond)
		if lines := log.take(); len(lines) != 0 {
			t.Fatalf("before the outage:\n%s", strings.Join(lines, "\n"))
		}
		db.away.Store(true)
		time.Sleep(5*time.Minute - 2*time.Second)
		var said, others []string
		for _, line := range log.take() {
			if strings.HasPrefix(line, "ERROR the store fails: trying again error=") {
				said = append(said, line)
			} else {
				others = append(others, line)
			}
		}
		if len(said) != 5 || strings.Contains(said[0], "held_back") ||
			!strings.Contains(said[1], "held_back=") {
			t.Fatalf(
				"during the outage %d lines, want one a minute:\n%s", len(said), strings.Join(said, "\n"),
			)
		}
		if strings.Count(said[0], "dial 10.0.0.1: refused") != 1 {
			t.Errorf("the error is there more than once: %s", said[0])
		}
		for _, line := range others { // the worker logs what it does about the outage, too
			if !strings.Contains(line, "stopping") && !strings.Contains(line, "session is over") {
				t.Errorf("during the outage: %s", line)
			}
		}
		db.away.Store(false)
		time.Sleep(time.Minute)
		var over int
		for _, line := range log.take() {
			if strings.HasPrefix(line, worksAgain) {
				over++
			} else if strings.HasPrefix(line, "ERROR") {
				t.Errorf("after the outage: %s", line)
			}
		}
		if over != 1 {
			t.Errorf("%d lines say that it is over", over)
		}
	})
}

// alone is one caller of a watched store, which logs its failures.
type alone struct {
	db     *database
	log    *book
	store  carillon.Store
	logger *slog.Logger
}

func newAlone() *alone {
	db, log := &database{Store: mem.NewStore()}, &book{}
	return &alone{
		db, log, outage.New("the store", slog.New(log)).Store(databaseStore{db}),
		slog.New(outage.Handler(log)),
	}
}

func (a *alone) write(ctx context.Context) {
	if _, err := a.store.Commit(ctx, nil); err != nil {
		a.logger.Error("write", "error", fmt.Errorf("commit: %w", err))
	}
}

func (a *alone) read(ctx context.Context) {
	if _, err := a.store.Jobs(ctx, nil); err != nil {
		a.logger.Error("read", "error", err)
	}
}

func (a *alone) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := a.log.take(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("lines:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const (
	failedWrite = `ERROR the store fails: trying again error=commit: connect: dial 10.0.0.1: refused while=write`
	worksAgain  = `INFO the store works again after=`
)

func TestReadsDoNotEndAnOutageOfWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAlone()
		a.db.full.Store(true)
		for range 10 {
			a.write(t.Context())
			a.read(t.Context())
			time.Sleep(time.Second)
		}
		a.expect(t, failedWrite)
		a.db.full.Store(false)
		a.read(t.Context())
		a.expect(t)
		a.write(t.Context())
		a.expect(t, worksAgain+"10s held_back=9")
	})
}

func TestAStoreThatComesAndGoesIsSaidTwiceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAlone()
		for second := range 60 {
			a.db.away.Store(second%2 == 0)
			a.write(t.Context())
			time.Sleep(time.Second)
		}
		a.expect(t, failedWrite, worksAgain+"1s held_back=0")
	})
}

func TestAnErrorThatIsAnAnswerIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAlone()
		for _, err := range []error{carillon.ErrNotFound, carillon.ErrConflict, context.Canceled} {
			store := outage.New("the store", slog.New(a.log)).Store(failing{err: err})
			_, got := store.Jobs(t.Context(), nil)
			a.logger.Error("read", "error", got)
			a.expect(t, "ERROR read error="+err.Error())
		}
		a.logger.Error("other", "error", errAway)
		a.logger.Error("other")
		a.expect(t, "ERROR other error="+errAway.Error(), "ERROR other")
	})
}

type failing struct {
	carillon.Store
	err error
}

func (f failing) Jobs(context.Context, []carillon.JobVersion) ([]carillon.Job, error) {
	return nil, f.err
}
