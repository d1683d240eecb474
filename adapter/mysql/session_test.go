package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/porttest"
	"github.com/carillon-run/carillon/porttest/server"
)

func TestCoordinator(t *testing.T) {
	url := server.MariaDB(t, quickDDL...).URL
	store := openURL(t, url)
	open := func(t *testing.T) *Coordinator {
		makeAgain(t, store, "session")
		return NewCoordinator(store)
	}
	porttest.Coordinator(t, porttest.CoordinatorTest{
		Open: func(t *testing.T) carillon.Coordinator { return open(t) },
		Again: func(t *testing.T, _ carillon.Coordinator) carillon.Coordinator {
			return NewCoordinator(openURL(t, url))
		},
		Age: func(t *testing.T, c carillon.Coordinator, by time.Duration) {
			sessionsTest{t, c.(*Coordinator)}.age("%", by)
		},
	})
	run := func(name string, f func(sessionsTest)) {
		t.Run(name, func(t *testing.T) { f(sessionsTest{t, open(t)}) })
	}
	run("a session is over only when a call has ended it", sessionsEnd)
	run("two beats in one millisecond are not the end", sessionsBeatFast)
	run("the last of two beats at once counts", sessionsBeatTwice)
	run("ids are bytes", sessionsBytes)
	run("who is there already cannot join, nor can who comes with it", sessionsJoinTwice)
	run("many sessions beat at once, with all that they hold", sessionsMany)
	run("holds may be larger than a packet", sessionsHoldMuch)
	run("nodes beat, join, leave and expire at once", sessionsAtOnce)
	run("the clock is UTC, whatever the time zone", sessionsClock)
	run("lag is the age of the latest beat", sessionsLag)
	run("calls end with their context", sessionsContext)
}

// quickDDL are settings of a server that can forget everything: the tests make tables and change partitions
// all the time.
var quickDDL = []string{"innodb_flush_method=nosync", "sync_frm=0"}

func openURL(t testing.TB, url string) *Store {
	t.Helper()
	store, err := Open(t.Context(), url, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// makeAgain creates a table again as the migrations leave it. Every migration can be repeated.
func makeAgain(t testing.TB, store *Store, table string) {
	t.Helper()
	script := "DROP TABLE " + table + ";"
	for _, m := range Migrations() {
		script += m.SQL
	}
	if err := store.use(t.Context(), func(l *conn) error { return l.exec([]byte(script)) }); err != nil {
		t.Fatal(err)
	}
}

// sessionsTest is a coordinator. A call that fails fails the test.
type sessionsTest struct {
	testing.TB
	*Coordinator
}

func (t sessionsTest) join(ids ...string) {
	t.Helper()
	var members []carillon.Member
	for _, id := range ids {
		members = append(members, carillon.Member{ID: id, Kind: carillon.MemberWorker, Addr: "of " + id})
	}
	if err := t.Join(t.Context(), members); err != nil {
		t.Fatal(err)
	}
}

func (t sessionsTest) beat(beats ...carillon.Beat) (gone []string) {
	t.Helper()
	standings, err := t.Beat(t.Context(), beats)
	if err != nil {
		t.Fatal(err)
	}
	for i, standing := range standings {
		if standing == carillon.StandingOver {
			gone = append(gone, beats[i].ID)
		}
	}
	return gone
}

func (t sessionsTest) members(expire carillon.Time) (ids []string) {
	t.Helper()
	members, _, err := t.Members(t.Context(), carillon.MemberQuery{Expire: expire})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		ids = append(ids, m.ID)
	}
	return ids
}

func (t sessionsTest) holds(ids ...string) []carillon.Member {
	t.Helper()
	members, _, err := t.Members(t.Context(), carillon.MemberQuery{IDs: ids, Holds: true})
	if err != nil {
		t.Fatal(err)
	}
	return members
}

// age moves the last beat of the sessions like id into the past.
func (t sessionsTest) age(id string, d time.Duration) {
	t.Helper()
	err := t.store.use(t.Context(), func(l *conn) error {
		_, err := l.do(`UPDATE session SET beat = beat - ? WHERE id LIKE ?`, d.Milliseconds(), id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (t sessionsTest) same(what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func sessionsEnd(t sessionsTest) {
	t.join("a", "b", "c")
	t.age("a", carillon.SessionTime+time.Second)
	t.age("b", carillon.SessionTime+time.Second)
	t.age("c", carillon.SessionTime-time.Second)
	t.same("looked at", t.members(0), []string{"a", "b", "c"})
	t.same("gone", t.beat(carillon.Beat{ID: "b"}), nil)
	t.same("ended", t.members(carillon.Never), []string{"b", "c"})
	t.same("gone", t.beat(carillon.Beat{ID: "a"}, carillon.Beat{ID: "b"}), []string{"a"})
	t.same("at last", t.members(0), []string{"b", "c"})
}

func sessionsBeatFast(t sessionsTest) {
	t.join("a", "b")
	for range 200 {
		t.same("gone", t.beat(carillon.Beat{ID: "a"}, carillon.Beat{ID: "b"}), nil)
	}
}

func sessionsBeatTwice(t sessionsTest) {
	t.join("a")
	first, last := []carillon.Held{{Fence: 1}}, []carillon.Held{{Fence: 2}}
	t.same("gone",
		t.beat(
			carillon.Beat{ID: "a", Holds: first}, carillon.Beat{ID: "x"}, carillon.Beat{ID: "a", Holds: last},
			carillon.Beat{ID: "x"},
		),
		[]string{"x", "x"})
	if h := t.holds("a"); len(h) != 1 || !slices.Equal(h[0].Holds, last) {
		t.Errorf("%+v", h)
	}
}

func sessionsBytes(t sessionsTest) {
	ids := []string{"A", "a", "a ", `a'\"%?`, "a\x00", "ä", "\xff"}
	t.join(ids...)
	slices.Sort(ids)
	t.same("members", t.members(0), ids)
	for _, id := range ids {
		t.same("gone", t.beat(carillon.Beat{ID: id, Holds: []carillon.Held{{Fence: 1}}}), nil)
		if err := t.Leave(t.Context(), []string{id}); err != nil {
			t.Fatal(err)
		}
		t.same("gone", t.beat(carillon.Beat{ID: id}), []string{id})
	}
}

func sessionsJoinTwice(t sessionsTest) {
	t.join("a")
	err := t.Join(t.Context(), []carillon.Member{{ID: "b"}, {ID: "a"}})
	if !errors.Is(err, carillon.ErrConflict) {
		t.Errorf("joined twice: %v", err)
	}
	t.same("members", t.members(0), []string{"a"})
}

func sessionsMany(t sessionsTest) {
	const many = 2*most + 100
	now := carillon.Now()
	var ids, gone []string
	var beats []carillon.Beat
	for i := range many {
		b := carillon.Beat{ID: fmt.Sprintf("member-%05d", i)}
		for j := range i % 7 {
			b.Holds = append(b.Holds, carillon.Held{
				Run:   carillon.RunID{Job: carillon.JobID(i) << 40, Due: now - carillon.Time(j)},
				Fence: int64(j),
			})
		}
		ids, beats = append(ids, b.ID), append(beats, b)
		if i%100 == 50 {
			gone = append(gone, b.ID)
		}
	}
	t.join(ids...)
	if err := t.Leave(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	t.same("gone", t.beat(beats...), gone)
	left := t.holds(ids...)
	if len(left) != many-len(gone) {
		t.Fatalf("%d hold something", len(left))
	}
	for _, h := range left {
		i := slices.Index(ids, h.ID)
		if !slices.Equal(h.Holds, beats[i].Holds) || h.Beat.Sub(now).Abs() > time.Minute {
			t.Fatalf("%+v, want %+v", h, beats[i])
		}
	}
}

func sessionsHoldMuch(t sessionsTest) {
	t.join("a", "b", "c")
	held := make([]carillon.Held, 300_000)
	for i := range held {
		held[i] = carillon.Held{
			Run: carillon.RunID{Job: carillon.JobID(i*i) << 20, Due: carillon.Time(i * i)}, Fence: 1,
		}
	}
	t.same(
		"gone",
		t.beat(carillon.Beat{ID: "a", Holds: held}, carillon.Beat{ID: "b", Holds: held}, carillon.Beat{
			ID: "c", Holds: held[:1],
		}),
		nil,
	)
	for _, h := range t.holds("a", "b") {
		if !slices.Equal(h.Holds, held) {
			t.Errorf("%s holds %d others", h.ID, len(h.Holds))
		}
	}
}

func sessionsAtOnce(t sessionsTest) {
	var beats []carillon.Beat
	for i := range 40 {
		b := carillon.Beat{ID: fmt.Sprintf("stays-%02d", i), Holds: make([]carillon.Held, i)}
		t.join(b.ID)
		beats = append(beats, b)
	}
	var all sync.WaitGroup
	for node := range 6 {
		all.Go(func() {
			for turn := range 20 {
				id := fmt.Sprintf("comes-%d-%d", node, turn)
				t.join(id)
				if turn%2 == 0 {
					t.age(id, time.Hour)
				}
				mine := append(slices.Clone(beats[:20+node*3]), carillon.Beat{ID: "never"})
				if node%2 == 0 {
					slices.Reverse(mine)
				}
				t.same("gone", t.beat(mine...), []string{"never"})
				t.members(carillon.Never)
				if err := t.Leave(t.Context(), []string{id, "never"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := len(t.members(carillon.Never)); n != len(beats) {
		t.Errorf("%d are left", n)
	}
}

func sessionsClock(t sessionsTest) {
	before := carillon.Now()
	_, now, err := t.Members(t.Context(), carillon.MemberQuery{IDs: []string{"a"}})
	if err != nil || now < before-1 || now > carillon.Now()+1 {
		t.Errorf("%s is not after %s: %v", now, before, err)
	}
	err = t.store.use(t.Context(), func(l *conn) error {
		if err := l.exec([]byte(`SET time_zone = '+05:30'`)); err != nil {
			return err
		}
		defer l.exec([]byte(`SET time_zone = DEFAULT`))
		return l.query(func(r row) error {
			if now := carillon.Time(r.int(0)); now < before-1 || now > carillon.Now()+1 {
				t.Errorf("elsewhere it is %s", now)
			}
			return nil
		}, `SELECT `+clock)
	})
	if err != nil {
		t.Error(err)
	}
}

func sessionsLag(t sessionsTest) {
	if _, err := t.store.Lag(t.Context()); err == nil || !strings.Contains(err.Error(), "no beat") {
		t.Errorf("without members: %v", err)
	}
	t.join("a", "b")
	lag := func() time.Duration {
		d, err := t.store.Lag(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return d.Truncate(time.Minute)
	}
	t.age("a", 10*time.Minute)
	if d := lag(); d != 0 {
		t.Errorf("one has just joined: %v", d)
	}
	t.age("b", 5*time.Minute)
	if d := lag(); d != 5*time.Minute {
		t.Errorf("after five minutes: %v", d)
	}
	t.age("b", -time.Hour) // the other machine's clock is ahead
	if d := lag(); d != 0 {
		t.Errorf("with a beat from the future: %v", d)
	}
}

func sessionsContext(t sessionsTest) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, beat := t.Beat(ctx, []carillon.Beat{{ID: "a"}})
	_, _, members := t.Members(ctx, carillon.MemberQuery{Expire: carillon.Never})
	_, _, holds := t.Members(ctx, carillon.MemberQuery{IDs: []string{"a"}, Holds: true})
	for _, err := range []error{
		t.Join(ctx, []carillon.Member{{ID: "a"}}), t.Leave(ctx, []string{"a"}), beat, members, holds,
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("with an ended context: %v", err)
		}
	}
}
