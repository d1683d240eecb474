package main

import (
	"embed"
	"fmt"
	"strings"
)

// bug is a change that breaks a promise.
type bug struct {
	name   string
	origin string   // where such a bug was found, or how it comes about
	tests  []string // packages whose tests have to fail
	edits  []edit
}

// edit replaces lines of a file.
type edit struct{ file, was, is string }

//go:embed *.txt
var lists embed.FS

func readLists() (all []bug, err error) {
	files, err := lists.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		text, err := lists.ReadFile(f.Name())
		if err != nil {
			return nil, err
		}
		bugs, err := readList(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		all = append(all, bugs...)
	}
	return all, nil
}

// readList reads a list of bugs. Each begins with its name; then come its origin, the packages whose tests
// have to catch it, and its edits. An edit begins with its file; its lines are marked as in a diff, but there
// is no line number: the lines that are there now have to be in the file exactly once.
//
//	== the lease counts from the answer
//	origin: river#1213
//	tests: ./worker
//	--- worker/tend.go
//	-	w.lease.Extend(sent + protocol.LeaseTime)
//	+	w.lease.Extend(w.cfg.Boottime() + protocol.LeaseTime)
func readList(text string) (bugs []bug, err error) {
	var b *bug
	var e *edit
	for line := range strings.Lines(text) {
		name, isBug := strings.CutPrefix(line, "== ")
		file, isFile := strings.CutPrefix(line, "--- ")
		switch {
		case isBug:
			bugs = append(bugs, bug{name: strings.TrimSpace(name)})
			b, e = &bugs[len(bugs)-1], nil
		case b == nil: // what the list says about itself
		case isFile:
			b.edits = append(b.edits, edit{file: strings.TrimSpace(file)})
			e = &b.edits[len(b.edits)-1]
		case strings.TrimSpace(line) == "":
		case e == nil:
			if err := b.field(line); err != nil {
				return nil, fmt.Errorf("%s: %w", b.name, err)
			}
		default:
			if err := e.line(line); err != nil {
				return nil, fmt.Errorf("%s: %w", b.name, err)
			}
		}
	}
	return bugs, nil
}

func (b *bug) field(line string) error {
	key, value, _ := strings.Cut(line, ": ")
	value = strings.TrimSpace(value)
	switch key {
	case "origin":
		b.origin = value
	case "tests":
		b.tests = strings.Fields(value)
	default:
		return fmt.Errorf("%q is not valid: want origin:, tests: or an edit", strings.TrimSpace(line))
	}
	return nil
}

func (e *edit) line(line string) error {
	rest := line[1:]
	switch line[0] {
	case ' ':
		e.was, e.is = e.was+rest, e.is+rest
	case '-':
		e.was += rest
	case '+':
		e.is += rest
	default:
		return fmt.Errorf("%q is not valid in an edit: want a space, - or + first", strings.TrimSpace(line))
	}
	return nil
}

// apply returns the text of a file after the edit.
func (e *edit) apply(text string) (string, error) {
	if n := strings.Count(text, e.was); n != 1 || e.was == "" {
		return "", fmt.Errorf("%s: the lines to change are there %d times, want once:\n%s", e.file, n, e.was)
	}
	return strings.Replace(text, e.was, e.is, 1), nil
}

// files are the changed files, by path.
func (b *bug) files(read func(path string) ([]byte, error)) (map[string]string, error) {
	changed := map[string]string{}
	for i := range b.edits {
		e := &b.edits[i]
		text, known := changed[e.file]
		if !known {
			is, err := read(e.file)
			if err != nil {
				return nil, err
			}
			text = string(is)
		}
		after, err := e.apply(text)
		if err != nil {
			return nil, err
		}
		changed[e.file] = after
	}
	return changed, nil
}
