package main

import (
	"fmt"
	"slices"
	"strings"
)

// steps are all steps that can be measured, in this order.
func steps() []step {
	const k, million = 1000, 1_000_000
	list := []step{
		{scenario: "plain", alone: plain},
		{scenario: "submit", run: submit},
		{scenario: "bulk", run: bulk},
		{scenario: "drain", run: drain},
		{scenario: "drain", big: true, run: syncs},
		{scenario: "instant", size: 100 * k, run: instant},
		{scenario: "pickup", run: pickup},
		{scenario: "kill", big: true, run: killed},
		{scenario: "recurring", big: true, run: recurring},
	}
	for _, nodes := range []int{1, 2, 4, 8, 1} { // 1 comes before and after the others
		list = append(list, step{scenario: "nodes", size: nodes, big: true, run: nodesDrain, fits: shared})
	}
	list = append(list,
		step{scenario: "backlog", size: 10 * k, run: backlog},
		step{scenario: "backlog", size: 100 * k, run: backlog},
		step{scenario: "backlog", size: million, big: true, run: backlog},
		step{scenario: "backlog", size: 10 * million, big: true, run: backlog},
		step{scenario: "history", size: 0, big: true, run: history},
		step{scenario: "history", size: million, big: true, run: history},
		step{scenario: "history", size: 10 * million, big: true, run: history},
		step{scenario: "instant", size: million, big: true, run: instant},
		step{scenario: "ahead", size: million, big: true, run: ahead},
		step{scenario: "ahead", size: 10 * million, big: true, run: ahead},
	)
	return list
}

func shared(p scheduler) string { return p.alone }

// chooseSteps finds scenarios by their names.
func chooseSteps(only string) (chosen []step, err error) {
	all := steps()
	if only == "" {
		return all, nil
	}
	for name := range strings.SplitSeq(only, ",") {
		if !slices.ContainsFunc(all, func(s step) bool { return s.scenario == name }) {
			return nil, fmt.Errorf("only: there is no scenario %q", name)
		}
	}
	return slices.DeleteFunc(all, func(s step) bool {
		return !slices.Contains(strings.Split(only, ","), s.scenario)
	}), nil
}
