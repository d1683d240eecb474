package main

import (
	"embed"
	"fmt"
	"strings"

	"github.com/carillon-run/carillon/internal/overlay"
)

// bug is a change that breaks a promise.
type bug struct {
	name   string
	origin string   // where such a bug was found, or how it comes about
	tests  []string // packages whose tests have to fail
	edits  []overlay.Edit
}

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
// have to catch it, and its edits. An edit begins with its file; its lines are marked as in a diff, without
// line numbers.
//
//	== the lease counts from the answer
//	origin: river#1213
//	tests: ./worker
//	--- worker/tend.go
//	-	w.lease.Extend(sent + protocol.LeaseTime)
//	+	w.lease.Extend(w.cfg.Boottime() + protocol.LeaseTime)
func readList(text string) (bugs []bug, err error) {
	var b *bug
	var e *overlay.Edit
	for line := range strings.Lines(text) {
		name, isBug := strings.CutPrefix(line, "== ")
		file, isFile := strings.CutPrefix(line, "--- ")
		switch {
		case isBug:
			bugs = append(bugs, bug{name: strings.TrimSpace(name)})
			b, e = &bugs[len(bugs)-1], nil
		case b == nil: // what the list says about itself
		case isFile:
			b.edits = append(b.edits, overlay.Edit{File: strings.TrimSpace(file)})
			e = &b.edits[len(b.edits)-1]
		case strings.TrimSpace(line) == "":
		case e == nil:
			if err := b.field(line); err != nil {
				return nil, fmt.Errorf("%s: %w", b.name, err)
			}
		default:
			if err := e.Line(line); err != nil {
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
