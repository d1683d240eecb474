package main

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/carillon-run/carillon/bench/peers/peer"
	"github.com/carillon-run/carillon/bench/peers/result"
)

func TestNoSchedulerIsAlwaysTheFirst(t *testing.T) {
	list := []scheduler{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}}
	var got [][]string
	for round := 1; round <= 3; round++ {
		got = append(got, names(order(list, round)))
	}
	want := [][]string{{"a", "b", "c", "d"}, {"d", "c", "b", "a"}, {"c", "d", "a", "b"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTheSummaryOfStraceIsRead(t *testing.T) {
	const text = `% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 99.90    0.045123         112       401           fdatasync
  0.10    0.000045          22         2         1 fsync
------ ----------- ----------- --------- --------- ----------------
100.00    0.045168         112       403         1 total
`
	if got := countCalls(text); got != 403 {
		t.Errorf("got %d calls, want 403", got)
	}
	if got := countCalls(""); got != 0 {
		t.Errorf("got %d calls of nothing", got)
	}
}

func TestThePlainRateIsFoundInWhatBenchPrints(t *testing.T) {
	rate, ok := plainRate("bench: on SQLite 3\nbench: plain_cycle 117455 jobs/s\n\nfigure measured\n")
	if rate != 117455 || !ok {
		t.Errorf("got %v, %v", rate, ok)
	}
	if _, ok := plainRate("bench: on SQLite 3\n"); ok {
		t.Error("found a rate where there is none")
	}
}

func TestAProcessAndItsUse(t *testing.T) {
	self := os.Getpid()
	if got := family(self); got[0] != self {
		t.Errorf("family(%d) = %v: the process itself comes first", self, got)
	}
	if memoryOf(self, "VmRSS") <= 0 || memoryOf(self, "VmHWM") < memoryOf(self, "VmRSS")/2 {
		t.Errorf("memory: %v MB now, %v MB at most", memoryOf(self, "VmRSS"), memoryOf(self, "VmHWM"))
	}
	if got := usageOf(0); got != (usage{}) {
		t.Errorf("no peer has used %v", got)
	}
}

func TestWhatIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	ats := []string{"last"}
	for i := range keepRuns {
		ats = append(ats, strconv.Itoa(i))
	}
	for _, at := range append(ats, ats[keepRuns]) { // a run is saved again as it goes on
		b := &bench{
			flags:  &flags{results: path},
			result: result.Run{At: at, Figures: []result.Figure{{Name: "rate"}}},
		}
		if err := b.keep(); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := load(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range runs {
		got = append(got, r.At)
	}
	if want := ats[1:]; !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
}

func TestSchedulersAndScenariosAreChosenByName(t *testing.T) {
	chosen, err := choose("river,carillon-sqlite")
	if err != nil || !slices.Equal(names(chosen), []string{"carillon-sqlite", "river"}) {
		t.Errorf("got %v, %v", names(chosen), err)
	}
	if _, err := choose("riverr"); err == nil {
		t.Error("a scheduler that there is not was chosen")
	}
	if list, err := chooseSteps("pickup"); err != nil || len(list) != 1 {
		t.Errorf("got %d steps, %v", len(list), err)
	}
	if _, err := chooseSteps("pick"); err == nil {
		t.Error("a scenario that there is not was chosen")
	}
}

// A shell script answers as a scheduler would, then stops answering, then ends with an error.
func TestAProgramThatDiesSaysWhy(t *testing.T) {
	b := &bench{scene: t.Name()}
	p := scheduler{
		argv: []string{
			"sh", "-c",
			`echo '{"hello":{"name":"sh"}}'; read x; echo '{"jobs":3}'; read x; echo '{"cannot":"not that"}'; read x; echo no more >&2; exit 1`,
		},
	}
	ctx := context.Background()
	c, err := b.spawn(ctx, p, place{env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.kill()
	if a, err := c.ask(ctx, peer.Command{Do: "count"}, answering); a.Jobs != 3 || err != nil {
		t.Errorf("got %+v, %v", a, err)
	}
	if _, err := c.ask(ctx, peer.Command{Do: "recur"}, answering); err != peer.Cannot("not that") {
		t.Errorf("got %v, want that it cannot", err)
	}
	if _, err := c.ask(ctx, peer.Command{Do: "work"}, answering); err == nil ||
		err.Error() != "work: its process ended: no more" {
		t.Errorf("got %v, want its last words", err)
	}
}
