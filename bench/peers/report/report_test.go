package report

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon-run/carillon/bench/peers/peer"
	"github.com/carillon-run/carillon/bench/peers/result"
)

// All figures in these tests are made up.

// rounds are figures of one kind, one for each round.
func rounds(scenario, name string, size int, figure string, values ...float64) (list []result.Figure) {
	for i, v := range values {
		list = append(list, result.Figure{
			Scenario: scenario, Peer: name, Size: size, Name: figure, Unit: "made up", Round: i + 1, Value: v,
		})
	}
	return list
}

func madeUp(at string, figures ...[]result.Figure) result.Run {
	r := result.Run{
		At: at, Commit: "made-up", Machine: "a machine that is made up", Rounds: 3, Scale: 1,
		Servers: map[string]string{"postgres": "15, made up"},
		Peers: []peer.Hello{
			{
				Name: "carillon-postgres", Version: "1", Engine: "postgres",
				Durable: "on disk (synchronous commit)", History: "every run, kept",
			},
			{
				Name: "carillon-sqlite", Version: "1", Engine: "sqlite",
				Durable: "on disk (synchronous commit)", History: "every run, kept",
			},
			{
				Name: "river", Version: "2", Engine: "postgres", Durable: "on disk (PostgreSQL's commit)",
				History: "every job for 24 h",
			},
			{
				Name: "graphile-worker", Version: "3", Engine: "postgres", Durable: "on disk",
				History: "nothing: deleted when it ends",
			},
			{
				Name: "asynq", Version: "4", Engine: "redis", Settings: "a|b <i>",
				Durable: "in memory, on disk within a second", History: "nothing",
			},
		},
	}
	for _, f := range figures {
		r.Figures = append(r.Figures, f...)
	}
	return r
}

func rates(scenario, name string, values ...float64) []result.Figure {
	return rounds(scenario, name, 0, "rate", values...)
}

func has(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains(text, l) {
			t.Errorf("there is no %q in\n%s", l, text)
		}
	}
}

func hasNot(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if strings.Contains(text, l) {
			t.Errorf("there is %q in\n%s", l, text)
		}
	}
}

func markdown(runs ...result.Run) string {
	b := newBook(runs)
	return b.markdown(b.draw())
}

func TestRowsAreMediansWithTheirSpreadBestFirst(t *testing.T) {
	text := markdown(madeUp("2026-01-01T00:00:00Z",
		rates("drain", "river", 15_000, 10_000, 12_000),
		rates("drain", "carillon-postgres", 60_000, 48_000, 61_000),
		rates(
			"drain", "carillon-sqlite", 90_000,
		), rates("drain", "asynq", 6000, 8000), rates("plain", "plain-postgres", 100_000)))
	has(t, text, `|  | engine | jobs/s | Carillon is |
|---|---|---|---|
| plain-postgres | PostgreSQL | 100,000 |  |
| **carillon-sqlite** | **SQLite** | **90,000** |  |
| **carillon-postgres** | **PostgreSQL** | **60,000 (48,000..61,000)** |  |
| river | PostgreSQL | 12,000 (10,000..15,000) | 5.0x on PostgreSQL |
| asynq | Redis | 7,000 (6,000..8,000) | 8.6x on PostgreSQL, 13x on SQLite |
`)
}

func TestRatiosAreWithinOneRun(t *testing.T) {
	older := madeUp(
		"2026-01-01T00:00:00Z", rates("drain", "river", 10_000), rates("drain", "carillon-postgres", 20_000),
	)
	newer := madeUp("2026-01-02T00:00:00Z", rates("drain", "carillon-postgres", 90_000))
	look := madeUp("2026-01-03T00:00:00Z", rates("drain", "carillon-postgres", 1), rates("drain", "river", 1))
	look.Scale = 0.1
	text := markdown(newer, look, older)
	has(t, text,
		"| **carillon-postgres** | **PostgreSQL** | **90,000** |",
		"| river | PostgreSQL | 10,000 <sup>B</sup> | 2.0x on PostgreSQL |",
		"| drain on PostgreSQL, of River's | >= 3x | 2.00x (20,000 to 10,000) <sup>B</sup> | **NOT MET** |",
		"**The newest run**: 2026-01-02", "**Run B**: 2026-01-01")
	hasNot(t, text, "9.0x", "2026-01-03")
	oldest := madeUp("2025-01-01T00:00:00Z", rates("drain", "carillon-postgres", 5))
	hasNot(t, markdown(oldest, older, newer), "Run C")
	alone := markdown(newer, madeUp("2026-01-01T00:00:00Z", rates("drain", "river", 10_000)))
	has(
		t, alone, "| river | PostgreSQL | 10,000 <sup>B</sup> |  |",
		"| drain on PostgreSQL, of River's | >= 3x |  | not measured |",
	)
}

func TestLowerIsBetterForTimes(t *testing.T) {
	text := markdown(madeUp("2026-01-01T00:00:00Z",
		rounds("instant", "river", 100_000, "p99", 6000),
		rounds("instant", "graphile-worker", 100_000, "p99", 5000),
		rounds(
			"instant", "carillon-postgres", 100_000, "p99", 1250,
		), rounds("instant", "carillon-sqlite", 100_000, "p99", 1001)))
	has(t, text,
		"**100,000 jobs due at one instant**",
		"| graphile-worker | PostgreSQL | 5,000 | 4.0x on PostgreSQL |",
		"| river | PostgreSQL | 6,000 | 4.8x on PostgreSQL |",
		"<= 0.33 | 0.25 (1,250 to 5,000 of graphile-worker) | met |",
		"| 100k at one instant on SQLite, p99 | <= 1,000 ms | 1,001 ms | **NOT MET** |")
	if strings.Index(
		text, "| graphile-worker | PostgreSQL | 5,000",
	) > strings.Index(text, "| river | PostgreSQL | 6,000") {
		t.Error("the later one comes first")
	}
}

func TestFlatIsMeasuredAllTheWayInOneRun(t *testing.T) {
	size := func(n int, v float64) []result.Figure {
		return rounds("backlog", "carillon-postgres", n, "rate_warm", v)
	}
	whole := madeUp(
		"2026-01-01T00:00:00Z", size(10_000, 60_000), size(1_000_000, 48_000), size(10_000_000, 50_000),
	)
	has(
		t, markdown(whole),
		"| backlog of 10k to 10M on PostgreSQL, from the first start on, cost at worst | <= 1.2x | 1.25x over 3 sizes | **NOT MET** |",
	)
	part := madeUp("2026-01-02T00:00:00Z", size(10_000, 60_000), size(100_000, 59_000))
	has(t, markdown(whole, part), "1.25x over 3 sizes <sup>B</sup> | **NOT MET** |")
	has(
		t, markdown(part),
		"| backlog of 10k to 10M on PostgreSQL, from the first start on, cost at worst | <= 1.2x |  | not measured |",
	)
}

func TestWhatIsNotComparableIsSaidByThePeersOwnWords(t *testing.T) {
	run := madeUp(
		"2026-01-01T00:00:00Z", rates("drain", "asynq", 1), rates("drain", "graphile-worker", 1),
		rates("drain", "river", 1), rates("drain", "carillon-postgres", 1),
	)
	run.Absent = []result.Absent{
		{Peer: "faktory", Why: "it is <not> there"},
		{Peer: "river", Scenario: "recurring", Why: "by the | minute"},
	}
	text := markdown(run)
	has(t, text,
		"not on disk with asynq (in memory, on disk within a second):",
		"by asynq (nothing) and graphile-worker (nothing: deleted when it ends):",
		"For asynq there is no Carillon",
		"- faktory: it is &lt;not&gt; there", `- river: by the \| minute`,
		`| asynq | 4 | Redis | a\|b &lt;i&gt; |`)
	hasNot(t, text, "<i>")
	newer := madeUp(
		"2026-01-02T00:00:00Z", rates("drain", "faktory", 1), rounds("recurring", "river", 0, "ran", 5),
	)
	hasNot(t, markdown(run, newer), "it is &lt;not&gt; there", "by the")
}

func TestNotesAreToldBelowTheTable(t *testing.T) {
	run := madeUp("2026-01-01T00:00:00Z", rates("drain", "river", 100))
	run.Figures[0].Note = "stopped after 60 s"
	has(t, markdown(run), "| river | PostgreSQL | 100 † |", "† river: stopped after 60 s.")
}

func TestAFigureThatSomethingIsWrongWithMeetsNoBar(t *testing.T) {
	run := madeUp(
		"2026-01-01T00:00:00Z", rates("drain", "carillon-postgres", 90_000), rates("drain", "river", 10_000),
	)
	has(t, markdown(run), "| drain on PostgreSQL, of River's | >= 3x | 9.00x (90,000 to 10,000) | met |")
	run.Figures[0].Note = "200001 starts of 200000 jobs"
	has(
		t, markdown(run),
		"| drain on PostgreSQL, of River's | >= 3x | 9.00x (90,000 to 10,000), but 200001 starts of 200000 jobs | **NOT MET** |",
	)
}

func TestDurabilityAndHistoryAreReadFromWhatIsSaid(t *testing.T) {
	for said, want := range map[string]bool{
		"on disk (synchronous commit)": true, "on disk (PostgreSQL's commit)": true,
		"fsync before it returns":                                 true,
		"in Redis' memory; its log reaches the disk every second": false,
		"appendfsync everysec: up to a second is lost":            false, "": false,
	} {
		if got := onDisk(peer.Hello{Durable: said}); got != want {
			t.Errorf("%q is on disk: %v", said, got)
		}
	}
	if onDisk(peer.Hello{Engine: "redis", Durable: "on disk"}) ||
		!onDisk(peer.Hello{Engine: "redis", Durable: "on disk: appendfsync always"}) {
		t.Error("a Redis is on disk only if it always syncs")
	}
	for said, want := range map[string]bool{
		"every run, with its counts of attempts and its last attempt, kept": true,
		"every job, as a row, for 24 h":                                     true,
		"nothing":                                                           false, "none: deleted": false,
		"it keeps nothing": false, "": false,
	} {
		if got := keeps(peer.Hello{History: said}); got != want {
			t.Errorf("%q keeps: %v", said, got)
		}
	}
}

func TestOnlyWhatIsBetweenTheMarkersIsWritten(t *testing.T) {
	root := t.TempDir()
	docs := filepath.Join(root, "docs")
	path := filepath.Join(docs, "benchmarks.md")
	if err := os.MkdirAll(filepath.Join(docs, "img"), 0o755); err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(docs, "img", "peers-pickup.svg")
	for file, text := range map[string]string{
		path: "above\n" + begin + "\nold\n" + end + "\nbelow\n", stale: "old",
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := madeUp(
		"2026-01-01T00:00:00Z", rates("drain", "river", 10_000), rates("drain", "carillon-postgres", 20_000),
	)
	for range 2 { // the second time changes nothing
		if err := Write([]result.Run{run}, root); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	if !strings.HasPrefix(text, "above\n"+begin+"\n") || !strings.HasSuffix(text, "\n"+end+"\nbelow\n") ||
		strings.Count(text, begin) != 1 {
		t.Errorf("the page is\n%s", text)
	}
	has(t, text, "](img/peers-drain.svg)")
	hasNot(t, text, "\nold\n", "peers-pickup.svg")
	if _, err := os.Stat(filepath.Join(docs, "img", "peers-drain.svg")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(stale); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the plot of what was not measured is still there: %v", err)
	}
}

func TestAPageWithoutMarkersIsLeftAlone(t *testing.T) {
	for _, page := range []string{"no markers", end + begin, begin} {
		if _, err := between(page, "x"); err == nil {
			t.Errorf("%q is taken for a page with markers", page)
		}
	}
}

func TestPlotsAreWellFormedAndEscaped(t *testing.T) {
	b := newBook([]result.Run{madeUp("2026-01-01T00:00:00Z",
		rates("submit", `<b> & "q"`, 10, 12), rates("drain", "river", 5),
		rounds("instant", "river", 100_000, "p99", 900),
		rounds("pickup", "river", 0, "p50", 1), rounds("pickup", "river", 0, "p99", 200),
		rounds("nodes", "river", 1, "rate", 5), rounds("nodes", "river", 8, "rate", 900),
		rounds("backlog", "river", 10, "rate", 5), rounds(
			"backlog", "river", 100, "rate", 6,
		), rounds("history", "river", 0, "rate", 5), rounds("history", "river", 100, "rate", 6))})
	drawn := b.draw()
	if len(drawn) != len(plots) {
		t.Errorf("%d of %d plots are drawn", len(drawn), len(plots))
	}
	for file, svg := range drawn {
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v in\n%s", file, err, svg)
			}
		}
		hasNot(t, svg, "<b>", "NaN", "Inf")
	}
}

func TestWithoutARunItSaysSo(t *testing.T) {
	has(t, markdown(), "Nothing has been measured yet")
}

func TestAxesTakeInAllValues(t *testing.T) {
	for _, values := range [][]float64{
		{1}, {0.3, 0.9}, {14_000, 60_000}, {0.3, 7.5, 30_000}, {100, 1000}, {0}, {99_999},
	} {
		for _, by := range []scale{byRange, logarithmic} {
			a := newAxis(values, 500, by)
			for _, v := range values {
				if at := a.place(v); at < 0 || at > 500 || v > 0 && at < 1 {
					t.Errorf("%v of %v lies at %v", v, values, at)
				}
			}
			if n := len(a.ticks); n < 2 || n > 9 {
				t.Errorf("%v has %d ticks", values, n)
			}
		}
	}
}

func TestNumbersAreShort(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.00342: "0.0034", 0.000045: "0.000045", 0.02: "0.02", 0.34: "0.34", 1.456: "1.46",
		99.96: "100", 14.44: "14.4", 59_773.4: "59,773", 1_234_567: "1,234,567",
	} {
		if got := number(v); got != want {
			t.Errorf("%v is shown as %s, want %s", v, got, want)
		}
	}
}
