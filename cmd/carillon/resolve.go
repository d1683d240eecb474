package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
)

// networks reads --http-allow.
func networks(given []string) (prefixes []netip.Prefix, err error) {
	for _, s := range given {
		prefix, err := parsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf(
				"http-allow: %q is not valid: want a network such as 10.0.0.0/8 or an address", s,
			)
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	if strings.Contains(s, "/") {
		return netip.ParsePrefix(s)
	}
	addr, err := netip.ParseAddr(s)
	return netip.PrefixFrom(addr, addr.BitLen()), err
}

// retryBudgetFlag is the help text of --retry-budget, and retryBudget reads it.
const retryBudgetFlag = "`share` of retries in the requests of http targets to one host, such as 10%; the " +
	"others wait, and so does nearly everything while the host does not answer. off: nothing waits"

func retryBudget(given string) (float64, error) {
	if given == "off" {
		return -1, nil
	}
	number, percent := strings.CutSuffix(given, "%")
	share, err := strconv.ParseFloat(number, 64)
	if err != nil || !percent || !(share >= 0.1 && share <= 100) {
		return 0, fmt.Errorf("retry-budget: %q is not valid: want 0.1%% to 100%%, or off", given)
	}
	return share / 100, nil
}

// newLogger reads --log-level and --log-format.
func newLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log-level: %q is not valid: want debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("log-format: %q is not valid: want text or json", format)
}
