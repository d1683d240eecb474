package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// place is a directory of logs. Its parts are checked or made here, never taken from outside as they are.
type place struct {
	namespace, class, day string
}

const (
	defaultClass = "default"
	keepPrefix   = "keep-"
	dayLayout    = time.DateOnly
	suffix       = ".log"
)

func placeOf(namespace string, run carillon.RunID, keep time.Duration) (place, error) {
	if err := checkNamespace(namespace); err != nil {
		return place{}, err
	}
	if again, err := carillon.ParseRunID(run.String()); err != nil || again != run {
		return place{}, &carillon.FieldError{Field: "run", Given: run.String(), Want: "a run id"}
	}
	return place{namespace, classOf(keep), run.Due.Std().Format(dayLayout)}, nil
}

// checkNamespace admits Carillon's words without a slash. They begin with a letter or digit, so ".." is none.
func checkNamespace(s string) error {
	good := s != "" && len(s) <= 64
	for i, r := range s {
		alnum := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		good = good && (alnum || i > 0 && strings.ContainsRune("._-@", r))
	}
	if !good {
		return &carillon.FieldError{Field: "namespace", Given: s, Want: "1 to 64 characters of a-z A-Z 0-9 . _ - @, the first a letter or digit"}
	}
	return nil
}

// classOf writes a keep as people write it in their jobs. Finer than a millisecond is rounded up.
func classOf(keep time.Duration) string {
	if keep <= 0 {
		return defaultClass
	}
	const ms = time.Millisecond
	return keepPrefix + carillon.Duration((keep+ms-1)/ms*ms).String()
}

// keepOf is how long a class is kept. What is neither is not ours, and is left alone.
func keepOf(class string, byDefault time.Duration) (keep time.Duration, ok bool) {
	if class == defaultClass {
		return byDefault, true
	}
	text, ok := strings.CutPrefix(class, keepPrefix)
	d, err := carillon.ParseDuration(text)
	return d.Std(), ok && err == nil && d > 0
}

func (p place) path() string { return filepath.Join(p.namespace, p.class, p.day) }

func fileName(run carillon.RunID) string { return run.String() + suffix }

func runOf(fileName string) (carillon.RunID, bool) {
	name, ok := strings.CutSuffix(fileName, suffix)
	run, err := carillon.ParseRunID(name)
	return run, ok && err == nil
}

// days keeps some day directories open: appends go to one or two of them, and walking there through os.Root costs more
// than writing a line.
type days struct {
	root *os.Root

	mu   sync.Mutex
	open map[place]*os.Root
}

const maxOpenDays = 32

// in calls f with the directory. It may have been closed here or removed by Trim in between: then once more.
func (d *days) in(p place, create bool, f func(*os.Root) error) error {
	var err error
	for range 5 {
		var dir *os.Root
		if dir, err = d.get(p, create); err == nil {
			err = f(dir)
		}
		gone := errors.Is(err, os.ErrClosed) || create && errors.Is(err, fs.ErrNotExist)
		if !gone {
			return err
		}
		d.forget(p)
	}
	return fmt.Errorf("directory %s keeps vanishing: %w", p.path(), err)
}

func (d *days) get(p place, create bool) (*os.Root, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if dir := d.open[p]; dir != nil {
		return dir, nil
	}
	if create {
		if err := d.root.MkdirAll(p.path(), 0o750); err != nil {
			return nil, err
		}
	}
	dir, err := d.root.OpenRoot(p.path())
	if err != nil {
		return nil, err
	}
	for other, old := range d.open {
		if len(d.open) < maxOpenDays {
			break
		}
		delete(d.open, other)
		_ = old.Close() // who is using it just now finishes; who comes next is told, and opens it again
	}
	d.open[p] = dir
	return dir, nil
}

func (d *days) forget(p place) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if dir := d.open[p]; dir != nil {
		delete(d.open, p)
		_ = dir.Close()
	}
}

func (d *days) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for p, dir := range d.open {
		delete(d.open, p)
		_ = dir.Close()
	}
}
