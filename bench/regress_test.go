package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestTheGuardSaysWhatGotWorse(t *testing.T) {
	recorded := map[string]float64{
		"drain": 0.57, "submit_x1": 0.04, "pickup_p50": 0.5, "pickup_max": 2, "instant_lateness_p99": 150_000,
		"steady_cpu": 3, "remote_ratio": 80, "backlog_cost_ratio": 1.1, "ahead_rss": 20, "drain_allocs": 10,
	}
	plain := figure{"plain_cycle", 100_000, "jobs/s"}
	for _, c := range []struct {
		name    string
		figures []figure
		want    verdict
	}{
		{
			"a rate is judged by its share of plain_cycle",
			[]figure{plain, {"drain", 45_000, "jobs/s"}},
			verdict{
				compared: 1, worse: []string{"drain 0.45 of plain_cycle, recorded 0.57: 21 % worse"},
			},
		},
		{
			"a machine that is slower as a whole is not a loss",
			[]figure{{"plain_cycle", 50_000, "jobs/s"}, {"drain", 28_000, "jobs/s"}},
			verdict{compared: 1},
		},
		{"a loss of 15 % is nothing", []figure{plain, {"drain", 48_500, "jobs/s"}}, verdict{compared: 1}},
		{
			"what got better is not a loss",
			[]figure{
				plain, {"drain", 90_000, "jobs/s"}, {"pickup_p50", 0.1, "ms"}, {"remote_ratio", 120, "%"},
			},
			verdict{compared: 3},
		},
		{"small shares are told apart", []figure{plain, {"submit_x1", 3000, "jobs/s"}}, verdict{
			compared: 1, worse: []string{"submit_x1 0.0300 of plain_cycle, recorded 0.0400: 25 % worse"},
		}},
		{"times that the processor takes are judged in plain cycles", []figure{
			plain, {"instant_lateness_p99", 1800, "ms"}, {"steady_cpu", 39, "us/job"},
		}, verdict{compared: 2, worse: []string{
			"instant_lateness_p99 180000 plain cycles, recorded 150000: 20 % worse",
			"steady_cpu 3.90 plain cycles, recorded 3.00: 30 % worse",
		}}},
		{"waits, ratios, memory and allocations are judged as they are", []figure{
			{"pickup_p50", 0.6, "ms"},
			{"remote_ratio", 60, "%"},
			{"backlog_cost_ratio", 1.32, "x"},
			{"ahead_rss", 30, "MB"},
			{"drain_allocs", 11, "allocs/job"},
		}, verdict{compared: 5, worse: []string{
			"pickup_p50 0.60 ms, recorded 0.50: 20 % worse",
			"remote_ratio 60.00 %, recorded 80.00: 25 % worse",
			"backlog_cost_ratio 1.32 x, recorded 1.10: 20 % worse",
			"ahead_rss 30.00 MB, recorded 20.00: 50 % worse",
		}}},
		{
			"without plain_cycle rates are not comparable",
			[]figure{{"drain", 1, "jobs/s"}, {"steady_cpu", 9, "us/job"}, {"pickup_p50", 0.5, "ms"}},
			verdict{
				compared: 1, without: []string{"drain", "steady_cpu"},
			},
		},
		{
			"what is not in the record is named",
			[]figure{plain, {"steady", 1, "jobs/s"}},
			verdict{unrecorded: []string{"steady"}},
		},
		{"one straggler is not a figure", []figure{plain, {"pickup_max", 900, "ms"}}, verdict{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := judge(c.figures, recorded); !reflect.DeepEqual(got, c.want) {
				t.Errorf("judged\n%+v\nwant\n%+v", got, c.want)
			}
		})
	}
}

func TestTheGuardSaysThatNothingGotWorse(t *testing.T) {
	for _, c := range []struct {
		name string
		v    verdict
		want string
	}{
		{
			"all is well",
			verdict{compared: 3},
			"\nnothing got worse by more than 15 % (3 figures compared with the record)\n",
		},
		{
			"nothing could be compared",
			verdict{without: []string{"drain", "steady"}},
			"\nnothing was compared with the record\nnot comparable without plain_cycle: drain, steady\n",
		},
		{
			"something got worse",
			verdict{compared: 3, worse: []string{"x"}, unrecorded: []string{"y"}},
			"\nworse than recorded: x\nnot recorded so far: y\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			if c.v.print(&out); out.String() != c.want {
				t.Errorf("said %q, want %q", out.String(), c.want)
			}
		})
	}
}

func TestARecordKeepsWhatWasNotMeasured(t *testing.T) {
	before := record{"sqlite": {"drain": 0.5, "pickup_p50": 1}, "mysql": {"drain": 0.3}}
	got := before.with("sqlite", []figure{
		{"plain_cycle", 100_000, "jobs/s"},
		{"drain", 60_000, "jobs/s"},
		{"drain_of_plain", 60, "%"},
		{"steady_cpu", 25, "us/job"},
		{"timer_max", 9, "ms"},
	})
	want := record{"sqlite": {"drain": 0.6, "pickup_p50": 1, "steady_cpu": 2.5}, "mysql": {"drain": 0.3}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the record is %v, want %v", got, want)
	}
	got = before.with("postgres", []figure{{"drain", 60_000, "jobs/s"}, {"pickup_p50", 2, "ms"}})
	want = record{"sqlite": before["sqlite"], "mysql": before["mysql"], "postgres": {"pickup_p50": 2}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("without plain_cycle the record is %v, want %v", got, want)
	}
}

func TestTheRecordIsOfStoresThatThereAre(t *testing.T) {
	var r record
	if err := json.Unmarshal(recordedJSON, &r); err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds {
		if r[k.name]["drain"] <= 0 || r[k.name]["drain"] > 1 {
			t.Errorf("%s: drain is recorded as %v of plain_cycle", k.name, r[k.name]["drain"])
		}
	}
	if len(r) != len(kinds) {
		t.Errorf("%d stores are recorded, there are %d", len(r), len(kinds))
	}
}
