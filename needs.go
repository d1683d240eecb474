package carillon

// needs is what a worker must have to perform runs of the job: the job's type, if its target is a handler,
// else the kind of its target behind a colon. No type begins with a colon. It is one text, and for a handler
// no new one, because every run carries it.
func (j *Job) needs() string {
	switch kind := j.Target.Kind(); kind {
	case "command":
		return ":command"
	case "http":
		return ":http"
	case "handler":
		return j.Type
	default:
		return ":" + kind
	}
}
