package carillon

import (
	"strings"
)

// JobID is a 64-bit number that rises with time (see internal/idgen); its text form is "job_" and 13
// characters.
type JobID int64

// RunID names a run: which job, and when it was due. There is no second id.
type RunID struct {
	Job JobID
	Due Time
}

// The text forms use Crockford's alphabet in lower case: no i, l, o, u, so no character looks like another.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

const (
	jobPrefix = "job_"
	runPrefix = "run_"
	idDigits  = 13 // 5 bits each: 64 bits and one bit over, which must be zero
	dueDigits = 10 // 50 bits of milliseconds: the year 37,000
)

func (id JobID) String() string { return string(appendDigits([]byte(jobPrefix), uint64(id), idDigits)) }

func (id RunID) String() string {
	b := appendDigits([]byte(runPrefix), uint64(id.Job), idDigits)
	return string(appendDigits(b, uint64(id.Due), dueDigits))
}

func (id JobID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }
func (id RunID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

func (id *JobID) UnmarshalText(b []byte) (err error) { *id, err = ParseJobID(string(b)); return err }

func (id *RunID) UnmarshalText(b []byte) (err error) { *id, err = ParseRunID(string(b)); return err }

// IsZero says that the id names no run; it keeps empty ids out of JSON.
func (id RunID) IsZero() bool { return id == RunID{} }

// ParseJobID is strict: one text for one id, so that ids can be compared as text.
func ParseJobID(s string) (JobID, error) {
	digits, ok := strings.CutPrefix(s, jobPrefix)
	n, valid := parseDigits(digits, idDigits)
	if !ok || !valid || int64(n) <= 0 {
		return 0, invalid("id", s, "a job id: job_ and %d characters of 0-9 a-z without i l o u", idDigits)
	}
	return JobID(n), nil
}

// ParseRunID is as strict as ParseJobID.
func ParseRunID(s string) (RunID, error) {
	digits, ok := strings.CutPrefix(s, runPrefix)
	if ok && len(digits) == idDigits+dueDigits {
		job, valid1 := parseDigits(digits[:idDigits], idDigits)
		due, valid2 := parseDigits(digits[idDigits:], dueDigits)
		if valid1 && valid2 && int64(job) > 0 && due > 0 {
			return RunID{Job: JobID(job), Due: Time(due)}, nil
		}
	}
	return RunID{}, invalid(
		"id", s, "a run id: run_ and %d characters of 0-9 a-z without i l o u", idDigits+dueDigits,
	)
}

// isID says whether a text is the id of a job or of a run. A name cannot be one: where a caller can give a
// name or an id, such a name would never be found.
func isID(s string) bool {
	if !strings.HasPrefix(s, jobPrefix) && !strings.HasPrefix(s, runPrefix) {
		return false
	}
	_, notJob := ParseJobID(s)
	_, notRun := ParseRunID(s)
	return notJob == nil || notRun == nil
}

func appendDigits(b []byte, n uint64, digits int) []byte {
	for shift := 5 * (digits - 1); shift >= 0; shift -= 5 {
		b = append(b, alphabet[n>>shift&31])
	}
	return b
}

func parseDigits(s string, digits int) (n uint64, ok bool) {
	if len(s) != digits {
		return 0, false
	}
	for i := range len(s) {
		d := strings.IndexByte(alphabet, s[i])
		if d < 0 || n>>59 != 0 { // a 65th bit
			return 0, false
		}
		n = n<<5 | uint64(d)
	}
	return n, true
}

// The parts of an id: 41 bits of milliseconds, then these. See internal/idgen.
const (
	idNodeBits    = 10
	idCounterBits = 12
)

// Nth is the id with this place in a block of ids that begins with id: see idgen.IDs.Block.
func (id JobID) Nth(n int) JobID {
	node := int64(id) >> idCounterBits & (1<<idNodeBits - 1)
	count := int64(id)>>(idNodeBits+idCounterBits)<<idCounterBits | int64(id)&(1<<idCounterBits-1)
	count += int64(n)
	return JobID(count>>idCounterBits<<(idNodeBits+idCounterBits) | node<<idCounterBits |
		count&(1<<idCounterBits-1))
}
