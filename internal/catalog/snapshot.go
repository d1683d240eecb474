package catalog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/carillon-run/carillon"
)

// Space is the namespace of the guards of all records. No caller can have it: see carillon.IsNamespace.
const Space = "/catalog"

const (
	prefix   = "catalog/"
	epochKey = "epoch" // outside the prefix: it is no record
)

// Name names a record of a kind.
type Name struct {
	Namespace string
	Name      string
}

// key is the key of the guard. A name can have slashes, so those of the namespace are escaped.
func (n Name) key(kind string) string {
	return prefix + kind + "/" + url.PathEscape(n.Namespace) + "/" + n.Name
}

func parseKey(key string) (kind string, name Name, ok bool) {
	rest, ok := strings.CutPrefix(key, prefix)
	parts := strings.SplitN(rest, "/", 3)
	if !ok || len(parts) < 3 {
		return "", Name{}, false
	}
	namespace, err := url.PathUnescape(parts[1])
	return parts[0], Name{namespace, parts[2]}, err == nil
}

// Record is a value with who set it, and when.
type Record[T any] struct {
	Name
	Value T
	By    string
	At    carillon.Time
	Rev   int32 // rises with every write, see carillon.Guard
}

// stored is the value of the guard of a record.
type stored struct {
	By    string          `json:"by,omitempty"`
	At    carillon.Time   `json:"at"`
	Value json.RawMessage `json:"value,omitempty"`
	// Removed says that the record is gone. Its guard is kept for a while, see carillon.GuardGrace: a record
	// that is made again goes on with its revision. So a write that was decided on the old record loses.
	Removed bool `json:"removed,omitempty"`
}

// Table is the records of one kind. A nil or empty table has none.
type Table[T any] struct {
	records map[Name]*Record[T]
	sorted  []*Record[T] // by namespace and name
}

// Get returns a record; nil if there is none. Callers must not modify it.
func (t *Table[T]) Get(namespace, name string) *Record[T] {
	if t == nil {
		return nil
	}
	return t.records[Name{namespace, name}]
}

// All returns the records of a namespace by name. Callers must not modify them.
func (t *Table[T]) All(namespace string) []*Record[T] {
	if t == nil {
		return nil
	}
	from, _ := slices.BinarySearchFunc(t.sorted, namespace, func(r *Record[T], namespace string) int {
		return cmp.Compare(r.Namespace, namespace)
	})
	to := from
	for to < len(t.sorted) && t.sorted[to].Namespace == namespace {
		to++
	}
	return t.sorted[from:to:to]
}

// Changed returns the names of records that are in one of two tables only, or have another revision there.
func (t *Table[T]) Changed(since *Table[T]) (names []Name) {
	for name, record := range t.records {
		if was := since.records[name]; was == nil || was.Rev != record.Rev {
			names = append(names, name)
		}
	}
	for name := range since.records {
		if t.records[name] == nil {
			names = append(names, name)
		}
	}
	return names
}

func (t *Table[T]) add(r *Record[T]) {
	if t.records == nil {
		t.records = map[Name]*Record[T]{}
	}
	t.records[r.Name] = r
}

func (t *Table[T]) sort() {
	t.sorted = slices.SortedFunc(maps.Values(t.records), func(a, b *Record[T]) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name.Name, b.Name.Name))
	})
}

// Snapshot is all records as of one time. It never changes.
type Snapshot struct {
	Queues     Table[Queue]
	Namespaces Table[Namespace]
	Limits     Table[carillon.Limit]
	Gates      Table[carillon.Gate]

	guards map[string]carillon.Guard // that it was made from, by key
	epoch  string
	limits map[limitKey]*carillon.Limit // those of Limits, for LimitsOf
	gates  map[string][]*carillon.Gate  // those of Gates that are closed, by namespace, oldest first
}

type limitKey struct {
	namespace string
	of        carillon.LimitOf
	key       string
}

// newSnapshot reads records from guards. The error names those that cannot be read; they are left out.
func newSnapshot(epoch string, guards map[string]carillon.Guard) (*Snapshot, error) {
	s := &Snapshot{guards: guards, epoch: epoch}
	var errs []error
	for key, guard := range guards {
		kind, name, ok := parseKey(key)
		if !ok || kinds[kind] == nil { // of a later version
			continue
		}
		if err := kinds[kind].read(s, name, &guard); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	}
	s.index()
	return s, errors.Join(errs...)
}

func (k Kind[T]) read(into *Snapshot, name Name, guard *carillon.Guard) error {
	record, err := k.record(name, guard)
	if err == nil && record != nil {
		k.table(into).add(record)
	}
	return err
}

// record is the record of a guard; nil if it was removed.
func (k Kind[T]) record(name Name, guard *carillon.Guard) (*Record[T], error) {
	var s stored
	if err := json.Unmarshal(guard.Value, &s); err != nil || s.Removed {
		return nil, err
	}
	r := &Record[T]{Name: name, By: s.By, At: s.At, Rev: guard.Rev}
	if err := json.Unmarshal(s.Value, &r.Value); err != nil {
		return nil, err
	}
	if k.fill != nil {
		if err := k.fill(name.Name, &r.Value); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// index makes what the hot path looks up.
func (s *Snapshot) index() {
	s.Queues.sort()
	s.Namespaces.sort()
	s.Limits.sort()
	s.indexGates()
	if len(s.Limits.sorted) > 0 {
		s.limits = make(map[limitKey]*carillon.Limit, len(s.Limits.sorted))
	}
	for _, r := range s.Limits.sorted {
		s.limits[limitKey{r.Namespace, r.Value.Of, r.Value.Key}] = &r.Value
	}
}

// indexGates puts the closed gates of each namespace in order.
func (s *Snapshot) indexGates() {
	s.Gates.sort()
	for _, r := range s.Gates.sorted {
		g := &r.Value
		if g.ID, g.Namespace = r.Name.Name, r.Namespace; g.Opened == 0 {
			if s.gates == nil {
				s.gates = map[string][]*carillon.Gate{}
			}
			s.gates[g.Namespace] = append(s.gates[g.Namespace], g)
		}
	}
	for _, gates := range s.gates {
		slices.SortStableFunc(gates, func(a, b *carillon.Gate) int { return cmp.Compare(a.At, b.At) })
	}
}

// ClosedFor is the oldest gate that is closed and matches a job; nil: none. It reads the clock only if a gate
// is closed in the job's namespace.
func (s *Snapshot) ClosedFor(job *carillon.Job, clock *carillon.Clock) *carillon.Gate {
	if len(s.gates) == 0 {
		return nil
	}
	gates := s.gates[job.Namespace]
	if len(gates) == 0 {
		return nil
	}
	now := clock.Now()
	for _, g := range gates {
		if g.State(now) == carillon.GateClosed && g.Match.Matches(job) {
			return g
		}
	}
	return nil
}

// LimitsOf returns the limits of a job, and those that operators set for its queue, its type and its
// namespace. Without the latter it costs no allocation.
func (s *Snapshot) LimitsOf(job *carillon.Job) []carillon.Limit {
	limits := job.Limits
	if len(s.limits) == 0 {
		return limits
	}
	for _, key := range [...]limitKey{
		{job.Namespace, carillon.LimitQueue, job.Queue},
		{job.Namespace, carillon.LimitType, job.Type},
		{job.Namespace, carillon.LimitNamespace, job.Namespace},
	} {
		if l := s.limits[key]; l != nil {
			limits = append(limits[:len(limits):len(limits)], *l) // a copy: the definition is shared
		}
	}
	return limits
}

// Weights are the weights of the queues that have one. Namespaces share a queue's place among the queues, so
// if several set a weight, the highest one counts.
func (s *Snapshot) Weights() map[string]int {
	weights := make(map[string]int, len(s.Queues.sorted))
	for _, r := range s.Queues.sorted {
		weights[r.Name.Name] = max(weights[r.Name.Name], r.Value.Weight)
	}
	return weights
}

// NamespaceWeights are the weights of the namespaces that have one.
func (s *Snapshot) NamespaceWeights() map[string]int {
	weights := make(map[string]int, len(s.Namespaces.sorted))
	for _, r := range s.Namespaces.sorted {
		weights[r.Namespace] = r.Value.Weight
	}
	return weights
}

// Lines are the lines of limits that are not as they were before: more runs, or all of them, may be able to
// start.
func (s *Snapshot) Lines(before *Snapshot) (lines []carillon.HoldName) {
	for _, name := range s.Limits.Changed(&before.Limits) {
		of := s.Limits.Get(name.Namespace, name.Name)
		if of == nil {
			of = before.Limits.Get(name.Namespace, name.Name)
		}
		lines = append(lines, carillon.HoldName{Namespace: name.Namespace, Hold: of.Value.Hold()})
	}
	return lines
}
