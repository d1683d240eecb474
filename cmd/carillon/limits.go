package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/carillon-run/carillon"
)

const limitForm = `a key with its bounds, such as customer-42=3, api=10/s or api=3,100/m,burst=10,weight=2`

// limits reads one more --limit.
func limits(text string, before any) (any, error) {
	key, bounds, ok := strings.Cut(text, "=")
	if !ok || key == "" || bounds == "" {
		return nil, fmt.Errorf("%q is not %s", text, limitForm)
	}
	limit := map[string]any{"key": key}
	for bound := range strings.SplitSeq(bounds, ",") {
		name, value, named := strings.Cut(bound, "=")
		if !named {
			name, value = "concurrency", bound
		}
		if strings.Contains(bound, "/") && !named {
			if _, err := carillon.ParseRate(bound); err != nil {
				return nil, err
			}
			limit["rate"] = bound
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil || name != "concurrency" && name != "burst" && name != "weight" {
			return nil, fmt.Errorf("%q in %q is not a part of %s", bound, text, limitForm)
		}
		limit[name] = n
	}
	list, _ := before.([]any)
	return append(list, limit), nil
}

// limitsText is one line for each limit of a job.
func limitsText(limits []carillon.Limit) string {
	var lines []string
	for i := range limits {
		lines = append(lines, limits[i].Key+": "+limitText(&limits[i]))
	}
	return strings.Join(lines, "; ")
}

// limitText is what a limit bounds.
func limitText(l *carillon.Limit) string {
	var parts []string
	if l.Concurrency > 0 {
		parts = append(parts, fmt.Sprintf("%d at the same time", l.Concurrency))
	}
	if l.Rate.Starts > 0 {
		text := l.Rate.String()
		if l.Burst > 1 {
			text += fmt.Sprintf(" in bursts of %d", l.Burst)
		}
		parts = append(parts, text)
	}
	if l.Weight > 1 {
		parts = append(parts, fmt.Sprintf("each run counts %d times", l.Weight))
	}
	return strings.Join(parts, ", ")
}
