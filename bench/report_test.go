package main

import (
	"strings"
	"testing"
)

func TestTheReportSaysOfEveryBarWhetherItIsMet(t *testing.T) {
	b := &bench{scale: 1, kind: &kind{bars: []bar{
		{figure: "drain", limit: 35_000},
		{figure: "steady", limit: 25_000},
		{figure: "pickup_p50", limit: 1.5, atMost: true},
		{figure: "pickup_p99", limit: 10, atMost: true},
		{figure: "held_ratio", limit: 70},
	}}}
	b.figures = []figure{
		{"drain", 35_000, "jobs/s"},
		{"steady", 24_999, "jobs/s"},
		{"pickup_p50", 1.5, "ms"},
		{"pickup_p99", 10.1, "ms"},
	}
	var out strings.Builder
	b.report(&out, "an engine")
	want := `bench: on an engine
bench: drain 35000 jobs/s
bench: steady 24999 jobs/s
bench: pickup_p50 1.50 ms
bench: pickup_p99 10.10 ms

      figure  measured    unit       bar              
       drain     35000  jobs/s  >= 35000           met
      steady     24999  jobs/s  >= 25000   !!! NOT MET
  pickup_p50      1.50      ms    <= 1.5           met
  pickup_p99     10.10      ms     <= 10   !!! NOT MET
  held_ratio         -             >= 70  not measured

!!! 2 of 5 bars NOT MET
`
	if got := out.String(); got != want {
		t.Errorf("the report is\n%s\nwant\n%s", got, want)
	}
}

func TestThePipelineTakesEveryRowThroughEveryStepOnce(t *testing.T) {
	for _, n := range []int{1, 999, 1000, 1001, 5300} {
		seen := [plainConnections]map[int64]int{}
		for i := range seen {
			seen[i] = map[int64]int{}
		}
		err := pipeline(n, func(conn int, insert, claim, finish []int64) error {
			for step, ids := range [][]int64{insert, claim, finish} {
				for _, id := range ids {
					if seen[conn][id] != step {
						t.Errorf(
							"%d rows: step %d of row %d comes after %d steps", n, step, id, seen[conn][id],
						)
					}
					seen[conn][id]++
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		finished := 0
		for _, rows := range seen {
			for _, steps := range rows {
				if steps == 3 {
					finished++
				}
			}
		}
		if finished != n {
			t.Errorf("%d rows: %d were finished", n, finished)
		}
	}
}
