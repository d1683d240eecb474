package mysql_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mysql"
)

// A query that falls back to a scan or a sort is still correct but a thousand times slower, so plans are
// tested. The tables are nearly empty, which is when an engine is most tempted to scan.
func TestPlans(t *testing.T) {
	store := openAt(t, database(t))
	changes := submits(t, 300, func(i int, job *carillon.Job) {
		job.Labels = map[string]string{"k": strconv.Itoa(i)}
		if i%2 == 1 {
			job.Limits = []carillon.Limit{{Key: "k" + strconv.Itoa(i%10), Concurrency: 1}}
		}
	})
	win(t, store, changes...)
	for i, c := range changes[:200] {
		end := ended(c, now)
		if i%2 == 0 {
			end.Runs[0].State = carillon.StateFailed
		}
		end.Runs[0].Output = &carillon.Output{
			Result: []byte("r"), Checkpoint: []byte("c"), Payload: []byte("p"),
		}
		end.Guards = guard(strconv.Itoa(i), 0, "v").Guards
		changes[i] = end
	}
	win(t, store, changes[:200]...)
	const (
		access, key, extra = 3, 5, 9
	)
	for name, q := range mysql.Queries() {
		plan, err := store.Query(t.Context(), `EXPLAIN `+q.Query)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, q.Query)
			continue
		}
		var keys []string
		for _, step := range plan {
			keys = append(keys, step[key])
			sorts := strings.Contains(step[extra], "filesort") || strings.Contains(step[extra], "temporary")
			if step[access] == "ALL" || step[access] == "index" || sorts != q.Sorts {
				t.Errorf("%s: %v", name, step)
			}
		}
		if !slices.Equal(keys, q.Keys) {
			t.Errorf("%s goes by %v, want %v\n%v", name, keys, q.Keys, plan)
		}
	}
}

// rowsRead returns how many rows a call makes the server read.
func rowsRead(t *testing.T, store *mysql.Store, call func() error) (n int) {
	t.Helper()
	if err := store.Exec(t.Context(), `FLUSH STATUS`); err != nil {
		t.Fatal(err)
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	counts, err := store.Query(t.Context(), `SHOW SESSION STATUS LIKE 'Handler_read%'`)
	if err != nil {
		t.Fatal(err)
	}
	for _, count := range counts {
		read, _ := strconv.Atoi(count[1])
		n += read
	}
	return n
}

// A backlog that is due at one instant is the hard case: the order of wakes says nothing until the last
// column.
func TestAPageOfWakesCostsItsOwnSize(t *testing.T) {
	// One connection, because the server counts rows per connection.
	store, err := mysql.Open(t.Context(), database(t), mysql.Config{Connections: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	const backlog, limit = 20_000, 100
	changes := submits(t, backlog, func(i int, job *carillon.Job) {
		if i%1000 == 999 {
			job.Queue = "small"
		}
	})
	win(t, store, changes...)
	half := changes[backlog/2].Runs[0]
	lane := new(carillon.Lane)
	*lane = changes[999].Runs[0].Lane()
	for _, c := range []struct {
		q     carillon.WakeQuery
		found int
		most  int
	}{
		{carillon.WakeQuery{}, limit, 2 * limit},
		{carillon.WakeQuery{After: half.WakePos()}, limit, 2 * limit},
		{carillon.WakeQuery{Lane: lane}, backlog / 1000, 100},
		{carillon.WakeQuery{Lane: lane, After: half.WakePos()}, backlog / 2000, 100},
		{
			carillon.WakeQuery{After: half.WakePos(), Shards: []int{1, 7, 8, 9, 20, 33, 47, 63}},
			limit,
			8 * 2 * limit,
		},
		{carillon.WakeQuery{Lane: lane, After: half.WakePos(), Shards: []int{1, 7}}, -1, 100},
	} {
		c.q.Until, c.q.Limit = now, limit
		var runs []carillon.Run
		n := rowsRead(t, store, func() (err error) {
			runs, err = store.Wakes(t.Context(), c.q)
			return err
		})
		if c.found >= 0 && len(runs) != c.found || n > c.most {
			t.Errorf("%+v: %d rows read for %d", c.q, n, len(runs))
		}
	}
	for name, call := range map[string]func() error{
		"jobs": func() error {
			_, err := store.FindJobs(t.Context(), carillon.JobQuery{Limit: limit})
			return err
		},
		"runs": func() error {
			_, err := store.FindRuns(t.Context(), carillon.RunQuery{Limit: limit})
			return err
		},
		"one job's runs": func() error {
			_, err := store.FindRuns(t.Context(), carillon.RunQuery{Limit: limit, Job: half.ID.Job})
			return err
		},
		"jobs by label": func() error {
			_, err := store.FindJobs(t.Context(), carillon.JobQuery{
				Namespace: "default", Labels: []carillon.Label{{Key: "k", Value: "v"}},
			})
			return err
		},
	} {
		if n := rowsRead(t, store, call); n > 6*limit {
			t.Errorf("%s: %d rows read", name, n)
		}
	}
}

// Most runs never wait in a line: their commits have no statement for lines.
func TestAPlainRunCostsNothingForLines(t *testing.T) {
	store := openAt(t, database(t))
	changes := submits(t, 20, nil)
	claims, ends := make([]carillon.Change, 20), make([]carillon.Change, 20)
	for i := range changes {
		run := changes[i].Runs[0]
		run.Rev = 1
		claims[i].Runs = []carillon.Run{run.Claim("w", now)}
		ends[i] = ended(changes[i], now)
	}
	for _, commit := range [][]carillon.Change{changes, claims, ends, claims[:1], ends[:1]} {
		if script := store.Script(commit...); strings.Contains(script, "line") {
			t.Errorf("%s", script)
		}
	}
	// A run that leaves a line makes the next commits look for such runs.
	changes[0].Runs[0].Hold = "limit/key/a"
	win(t, store, changes[0])
	win(t, store, claims[0])
	if script := store.Script(claims[1:]...); !strings.Contains(script, "DELETE line") {
		t.Errorf("%s", script)
	}
}

// A long line must not make it slower to read its first runs, or the names of other lines.
func TestAPageOfALineCostsItsOwnSize(t *testing.T) {
	// One connection, because the server counts rows per connection.
	store, err := mysql.Open(t.Context(), database(t), mysql.Config{Connections: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	const runs, lines, limit = 20_000, 10_000, 10
	var names []carillon.HoldName
	changes := submits(t, runs+2*lines, func(i int, job *carillon.Job) {
		key := "long"
		if i >= runs {
			key = "short" + strconv.Itoa(i%lines)
		}
		job.Limits = []carillon.Limit{{Key: key, Concurrency: 1}}
	})
	win(t, store, changes...)
	for _, c := range []carillon.Change{changes[0], changes[runs], changes[runs+1]} {
		names = append(names, carillon.HoldName{Namespace: "default", Hold: c.Runs[0].Hold})
	}
	for _, after := range []carillon.RunID{{}, changes[runs/2].Runs[0].ID} {
		n := rowsRead(t, store, func() error {
			found, err := store.Line(t.Context(), carillon.LineQuery{
				Lines: names, After: after, Until: now, Limit: limit,
			})
			if err == nil && len(found) != limit+4 {
				t.Errorf("%d runs", len(found))
			}
			return err
		})
		if n > 6*limit {
			t.Errorf("%d rows read for a page after %v", n, after)
		}
	}
	for _, after := range []carillon.HoldName{{}, names[0], names[1]} {
		n := rowsRead(t, store, func() error {
			_, err := store.Holds(t.Context(), after, limit)
			return err
		})
		if n > 6*limit {
			t.Errorf("%d rows read for names after %v", n, after)
		}
	}
}
