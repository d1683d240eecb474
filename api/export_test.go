package api

import (
	"strings"
	"time"
)

// RouteInfo is a line of the route table, for tests.
type RouteInfo struct {
	Method, Pattern, Path string
	Public                bool
	Query                 []string
}

// Routes is the route table, with an id of a job or run that does not exist in each path.
func Routes(c Config) []RouteInfo {
	s := &server{Config: c}
	var all []RouteInfo
	for _, rt := range s.table() {
		id := "run_" + strings.Repeat("0", 12) + "1" + strings.Repeat("0", 9) + "1"
		if strings.HasPrefix(rt.Pattern, "/v1/jobs/") {
			id = "job_" + strings.Repeat("0", 12) + "1"
		}
		if strings.HasPrefix(rt.Pattern, "/v1/gates/") {
			id = "gate_" + strings.Repeat("0", 9) + "1"
		}
		if strings.HasPrefix(rt.Pattern, "/v1/operations/") {
			id = "op_" + strings.Repeat("0", 12) + "1"
		}
		names := strings.NewReplacer("{id}", id, "{name}", "mail", "{of}", "queue", "{key}", "mail")
		path := names.Replace(rt.Pattern)
		info := RouteInfo{rt.Method, rt.Pattern, path, rt.Public, nil}
		for _, p := range rt.Query {
			info.Query = append(info.Query, p.Name)
		}
		all = append(all, info)
	}
	return all
}

// OverloadedRule decides which requests are refused under load.
func OverloadedRule(heldBytes, heldJobs, bytes, jobs int64, large bool, wait time.Duration) (
	retryAfter time.Duration, refused bool,
) {
	return overloaded(part{bytes: heldBytes, jobs: heldJobs}, part{bytes, jobs, large}, wait)
}

func PlainSubmit(head []byte) (batch bool, length int64, ok bool) {
	r, ok := plainSubmit(head)
	return r.batch, r.length, ok
}
