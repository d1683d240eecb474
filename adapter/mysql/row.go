package mysql

import (
	"github.com/carillon-run/carillon"
)

// column is a column of the rows of one kind, for inserts. The server spends a quarter of its time on reading
// our statements. So the usual value of a column is its default in the schema, and the column is left out if
// all rows of a statement have that value.
type column[T any] struct {
	name  string
	usual any
	value func(T) any
}

// unusual equals no value of any row: the column is always written.
type unusual struct{}

// insert writes statements that insert rows.
func insert[T any](s *statements, into string, columns []column[T], rows []T, behind string) {
	if len(rows) == 0 {
		return
	}
	var written []column[T]
	head := append([]byte(into), ` (`...)
	for _, c := range columns {
		if !c.differs(rows) {
			continue
		}
		if len(written) > 0 {
			head = append(head, ',')
		}
		head = append(head, c.name...)
		written = append(written, c)
	}
	many(s, string(head)+`) VALUES `, rows, func(b []byte, row T) []byte {
		before := byte('(')
		for _, c := range written {
			b = appendValue(append(b, before), c.value(row))
			before = ','
		}
		return append(b, ')')
	}, behind, 0)
}

func (c *column[T]) differs(rows []T) bool {
	if c.usual == (unusual{}) {
		return true
	}
	for _, row := range rows {
		if c.value(row) != c.usual {
			return true
		}
	}
	return false
}

type run = *carillon.Run

// runRow has the columns that a run is inserted with; its revision is then 1.
var runRow = []column[run]{
	{"due", unusual{}, func(r run) any { return r.ID.Due }},
	{"job", unusual{}, func(r run) any { return r.ID.Job }},
	{"shard", unusual{}, func(r run) any { return r.ID.Job.Shard() }},
	{"wake", unusual{}, func(r run) any { return r.Wake }},
	{"covers", carillon.Time(0), func(r run) any { return r.Covers }},
	{"claimed", carillon.Time(0), func(r run) any { return r.Claimed }},
	{"started", carillon.Time(0), func(r run) any { return r.Started }},
	{"retry_of", carillon.Time(0), func(r run) any { return r.RetryOf }},
	{"version", int32(1), func(r run) any { return r.Version }},
	{"seq", int32(0), func(r run) any { return r.Seq }},
	{"attempt", int32(0), func(r run) any { return r.Attempt }},
	{"failures", int32(0), func(r run) any { return r.Failures }},
	{"losses", int32(0), func(r run) any { return r.Losses }},
	{"crashes", int32(0), func(r run) any { return r.Crashes }},
	{"state", carillon.StateWaiting, func(r run) any { return r.State }},
	{"priority", int8(5), func(r run) any { return r.Priority }},
	{"flags", carillon.Flags(0), func(r run) any { return r.Flags &^ carillon.FlagAdditional }},
	{"extra", false, func(r run) any { return r.Has(carillon.FlagAdditional) }},
	{"namespace", "default", func(r run) any { return r.Namespace }},
	{"queue", "default", func(r run) any { return r.Queue }},
	{"worker", "", func(r run) any { return r.Worker }},
	{"reason", "", func(r run) any { return r.Reason }},
	{"needs", "", func(r run) any { return r.Needs }},
	{"share", "", func(r run) any { return r.Share }},
	{"hold", "", func(r run) any { return r.Hold }},
	{"slots", "", func(r run) any { return r.Slots }},
}

// endedRow has the columns of a record of history. A dead letter has the same ones, but another expiry.
func endedRow(expires func(r run) carillon.Time) []column[run] {
	return []column[run]{
		{"job", unusual{}, func(r run) any { return r.ID.Job }},
		{"due", unusual{}, func(r run) any { return r.ID.Due }},
		{"covers", carillon.Time(0), func(r run) any { return r.Covers }},
		{"until", carillon.Time(0), func(r run) any { return r.Until }},
		{"claimed", carillon.Time(0), func(r run) any { return r.Claimed }},
		{"started", carillon.Time(0), func(r run) any { return r.Started }},
		{"ended", unusual{}, func(r run) any { return r.Ended }},
		{"expires", nil, func(r run) any { return or(expires(r)) }},
		{"retry_of", carillon.Time(0), func(r run) any { return r.RetryOf }},
		{"version", int32(1), func(r run) any { return r.Version }},
		{"seq", int32(0), func(r run) any { return r.Seq }},
		{"attempt", int32(1), func(r run) any { return r.Attempt }},
		{"failures", int32(0), func(r run) any { return r.Failures }},
		{"losses", int32(0), func(r run) any { return r.Losses }},
		{"crashes", int32(0), func(r run) any { return r.Crashes }},
		{"state", carillon.StateSucceeded, func(r run) any { return r.State }},
		{"priority", int8(5), func(r run) any { return r.Priority }},
		{"namespace", "default", func(r run) any { return r.Namespace }},
		{"queue", "default", func(r run) any { return r.Queue }},
		{"name", "", func(r run) any { return about(r).Name }},
		{"type", "", func(r run) any { return about(r).Type }},
		{"owner", "default", func(r run) any { return about(r).Owner }},
		{"worker", "", func(r run) any { return r.Worker }},
		{"reason", "", func(r run) any { return r.Reason }},
	}
}

func about(r run) *carillon.About {
	if r.About == nil {
		return &carillon.About{}
	}
	return r.About
}

var (
	historyRow = endedRow(func(r run) carillon.Time { return r.Expires })
	deadRow    = append(
		endedRow(func(r run) carillon.Time { return r.DeadExpires }),
		column[run]{"fingerprint", unusual{}, func(r run) any { return int64(printOf(r)) }},
		column[run]{"bucket", unusual{}, func(run) any { return bucket }},
	)
)

// newJob is a job with the part of its definition that is stored beside the columns.
type newJob struct {
	*carillon.Job
	due  carillon.Time // 0: recurring
	spec string
}

// jobRow has the columns that a job is inserted with; its revision is then 1.
var jobRow = []column[newJob]{
	{"id", unusual{}, func(j newJob) any { return j.ID }},
	{"namespace", "default", func(j newJob) any { return j.Namespace }},
	{"version", int32(1), func(j newJob) any { return j.Version }},
	{"state", carillon.JobActive, func(j newJob) any { return j.State }},
	{"created", unusual{}, func(j newJob) any { return j.Created }},
	{"updated", unusual{}, func(j newJob) any { return j.Updated }},
	{"due", nil, func(j newJob) any { return or(j.due) }},
	{"name", unusual{}, func(j newJob) any { return j.Name }},
	{"type", unusual{}, func(j newJob) any { return j.Type }},
	{"owner", "default", func(j newJob) any { return j.Owner }},
	{"spec", "", func(j newJob) any { return j.spec }},
	{"payload", unusual{}, func(j newJob) any { return []byte(j.Payload) }},
}
