package disk

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
)

// place is a directory of segments. This file checks or makes its parts; they never come from outside
// unchecked.
type place struct {
	namespace, class string
}

func (p place) path() string { return path.Join(p.namespace, p.class) }

func placeOf(namespace string, run carillon.RunID, keep time.Duration) (place, error) {
	if err := checkNamespace(namespace); err != nil {
		return place{}, err
	}
	if again, err := carillon.ParseRunID(run.String()); err != nil || again != run {
		return place{}, &carillon.FieldError{Field: "run", Given: run.String(), Want: "a run id"}
	}
	return place{namespace, classOf(keep)}, nil
}

// checkNamespace accepts the names that Carillon allows, except those with a slash. They begin with a letter
// or digit, so ".." is refused.
func checkNamespace(s string) error {
	good := s != "" && len(s) <= 64
	for i, r := range s {
		alnum := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		good = good && (alnum || i > 0 && strings.ContainsRune("._-@", r))
	}
	if !good {
		return &carillon.FieldError{
			Field: "namespace", Given: s,
			Want: "1 to 64 characters of a-z A-Z 0-9 . _ - @, the first a letter or digit",
		}
	}
	return nil
}

const (
	defaultClass = "default"
	keepPrefix   = "keep-"
)

const day = 24 * time.Hour

// classes are the longest times that the lines of a class are kept. They are few, so that jobs with different
// retentions still share segments. Whatever its class, a segment goes when its last line can go.
var classes = []time.Duration{
	10 * time.Minute, time.Hour, 6 * time.Hour, day, 2 * day, 3 * day, 7 * day, 14 * day, 30 * day, 60 * day,
	90 * day,
	180 * day, 365 * day, 3650 * day, 36500 * day,
}

// classOf names the class of lines that are kept for the given time; 0 means by the server's rule.
func classOf(keep time.Duration) string {
	if keep <= 0 {
		return defaultClass
	}
	i, _ := slices.BinarySearch(classes, keep)
	return keepPrefix + carillon.Duration(classes[min(i, len(classes)-1)]).String()
}

// keepOf returns the longest time that a class is kept. A directory with another name is not ours, and is
// left alone.
func keepOf(class string, byDefault time.Duration) (keep time.Duration, ok bool) {
	if class == defaultClass {
		return byDefault, true
	}
	text, ok := strings.CutPrefix(class, keepPrefix)
	d, err := carillon.ParseDuration(text)
	return d.Std(), ok && err == nil && slices.Contains(classes, d.Std())
}

// A segment is named by the time at which it began, in UTC. Names sort by time.
const stemLayout = "2006-01-02T15-04-05.000"

// The files of a segment: its lines, the index of a sealed segment, and an index that is being written.
const (
	logSuffix     = ".log"
	indexSuffix   = ".idx"
	writingSuffix = ".idx.tmp"
)

func stemOf(began carillon.Time) string { return began.Std().UTC().Format(stemLayout) }

// beganAt reads the name of a file of a segment. Other files are not ours.
func beganAt(stem string) (carillon.Time, bool) {
	at, err := time.Parse(stemLayout, stem)
	return carillon.Time(at.UnixMilli()), err == nil && stemOf(carillon.Time(at.UnixMilli())) == stem
}

// position is the place of a line in the output of a run.
type position struct {
	attempt int32
	offset  int64
}

func (p position) compare(o position) int {
	return cmp.Or(cmp.Compare(p.attempt, o.attempt), cmp.Compare(p.offset, o.offset))
}

func (p position) less(o position) bool { return p.compare(o) < 0 }

func compareRuns(a, b carillon.RunID) int {
	return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Job, b.Job))
}
