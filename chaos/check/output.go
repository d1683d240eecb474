package check

import "time"

// output checks that the log of an attempt has every line that its body wrote, in order. A body prints what
// it writes.
func (j *judge) output(v *view) {
	for i := range v.records {
		log, sampled := j.logs[v.records[i].ID]
		if !sampled {
			continue
		}
		var wrote []Line
		for _, l := range v.lines {
			if l.Run == log.Run && l.Attempt == log.Attempt {
				wrote = append(wrote, l)
			}
		}
		if missing, any := absent(wrote, log.Lines); any && !j.cutOff(wrote) {
			j.found(v, PromiseLogs, log.Run, "the log of attempt %d has no line %q in its place", log.Attempt,
				missing)
		}
	}
}

// absent is the first line that a log does not have in its place.
func absent(wrote []Line, log []string) (missing Line, any bool) {
	for _, l := range wrote {
		text := l.String()
		for len(log) > 0 && log[0] != text {
			log = log[1:]
		}
		if len(log) == 0 {
			return l, true
		}
		log = log[1:]
	}
	return Line{}, false
}

// flushTime is after how long output is in the store, if the store answers.
const flushTime = time.Second

// cutOff says that a process was killed or stopped before the output of an attempt can have reached the
// store: while the store is away, its lines are in the memory of a worker or a node.
func (j *judge) cutOff(wrote []Line) bool {
	from, to := wrote[0].Mono, wrote[len(wrote)-1].Mono+flushTime
	for _, f := range j.others {
		if f.Part == PartStore && f.From <= to && f.end() >= from {
			to = max(to, f.end()+flushTime)
		}
	}
	for _, f := range j.Faults {
		if f.Part != PartStore && !f.Freezes && f.From <= to && f.From >= from {
			return true
		}
	}
	return false
}
