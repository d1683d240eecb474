package disk

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/carillon-run/carillon"
)

// load finds the segments that earlier processes have left. It reads those without an index from end to end;
// there is at most about one for each place, because all others were sealed.
func (l *Logs) load() error {
	namespaces, err := l.names(".")
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		if checkNamespace(namespace) != nil {
			continue
		}
		classes, err := l.names(namespace)
		l.passOver(namespace, err)
		for _, class := range classes {
			if _, ok := keepOf(class, 0); !ok {
				continue
			}
			l.loadPack(place{namespace, class})
		}
	}
	return nil
}

// passOver logs what cannot be read. The server starts all the same: runs do not depend on the output of
// earlier runs.
func (l *Logs) passOver(name string, err error) (passed bool) {
	if err != nil {
		l.logger.Warn("logs are passed over", "path", name, "error", err)
	}
	return err != nil
}

func (l *Logs) loadPack(p place) {
	names, err := l.names(p.path())
	l.passOver(p.path(), err)
	var open []*segment
	for _, name := range names {
		stem, suffix, _ := strings.Cut(name, logSuffix)
		began, ours := beganAt(stem)
		if !ours || suffix != "" || !strings.HasSuffix(name, logSuffix) {
			l.passOver(p.path()+"/"+name, l.removeLeftover(p, name, names))
			continue
		}
		s := newSegment(p, began)
		if l.passOver(s.name(logSuffix), l.loadSegment(s)) {
			continue
		}
		k := l.pack(p)
		k.segments = append(k.segments, s)
		if s.sealed == 0 {
			open = append(open, s)
		}
	}
	for i, s := range open {
		last := i == len(open)-1 && s.size < l.limits.size && len(s.held) < l.limits.extents
		if last {
			l.packs[p].open = s
			l.gathered += len(s.held)
		} else {
			l.fill(s)
		}
	}
	l.fillLargest()
	_ = l.seal(l.takeFull()) // on a full disk the server starts all the same; Trim tries again
}

// removeLeftover removes an index that was not finished, or whose segment is gone. It leaves all other files
// alone.
func (l *Logs) removeLeftover(p place, name string, names []string) error {
	stem, unfinished := strings.CutSuffix(name, writingSuffix)
	if !unfinished {
		stem, _ = strings.CutSuffix(name, indexSuffix)
		if _, hasLines := slices.BinarySearch(names, stem+logSuffix); hasLines {
			return nil
		}
	}
	if _, ours := beganAt(stem); !ours || stem == name {
		return nil
	}
	return l.remove(p.path() + "/" + name)
}

func (l *Logs) loadSegment(s *segment) error {
	// O_NONBLOCK, so that a named pipe cannot block the start.
	f, err := l.root.OpenFile(s.name(logSuffix), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "open", Path: s.name(logSuffix), Err: fs.ErrInvalid}
	}
	if sealed, err := l.readHead(s, info.Size()); err != nil || sealed {
		return err
	}
	if err := l.remove(s.name(indexSuffix)); err != nil { // if there is one, it does not fit
		return err
	}
	fresh := newSegment(s.place, s.began)
	if err := l.scan(fresh, f); err != nil {
		l.held -= fresh.drop()
		return err
	}
	*s = *fresh
	if s.size < info.Size() { // a crash has torn the last line
		_ = l.truncate(s) // if this fails, reopen finds another size and the next segment begins
	}
	keep, _ := keepOf(s.class, 0) // the keep of each chunk is not known any more
	s.wrote(carillon.Time(info.ModTime().UnixMilli()), keep)
	return nil
}

func (l *Logs) truncate(s *segment) error {
	f, err := l.root.OpenFile(s.name(logSuffix), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(s.size), f.Close())
}

// scan makes the index of a segment from its lines. It passes over everything that is not a line.
func (l *Logs) scan(s *segment, f io.Reader) error {
	r := newReader(f)
	for {
		line, at, err := r.line()
		if errors.Is(err, io.EOF) {
			s.size = r.next
			return nil
		}
		if err != nil {
			return err
		}
		run, rest, ok := splitRun(line)
		if !ok {
			continue
		}
		rec, ok := parse(rest)
		if !ok || at > math.MaxUint32 {
			continue
		}
		l.held += s.add(extent{
			run: run, first: rec.offset, attempt: rec.attempt, lines: 1, at: uint32(at),
			size: uint32(r.next - at),
		})
	}
}

// names lists a directory in order. The list is empty if the directory does not exist, or if a person has put
// a file in its place.
func (l *Logs) names(dir string) ([]string, error) {
	f, err := l.root.Open(dir)
	if err != nil {
		return nil, ifThere(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.IsDir() {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

func (l *Logs) remove(name string) error { return ifThere(l.root.Remove(name)) }

// ifThere ignores an error that says that a file does not exist.
func ifThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
