// Package overlay changes lines of Go files for one build: the go command reads changed copies in place of
// the real files, which stay as they are.
package overlay

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Edit replaces lines of a file. It has no line number: the lines that are there now have to be in the file
// exactly once, so that an edit which no longer fits is noticed.
type Edit struct{ File, Was, Is string }

// Line adds a line to the edit, marked as in a diff: with a space if it stays, - if it goes, + if it comes.
func (e *Edit) Line(line string) error {
	rest := line[1:]
	switch line[0] {
	case ' ':
		e.Was, e.Is = e.Was+rest, e.Is+rest
	case '-':
		e.Was += rest
	case '+':
		e.Is += rest
	default:
		return fmt.Errorf("%q is not valid in an edit: want a space, - or + first", strings.TrimSpace(line))
	}
	return nil
}

// Read reads a list of edits. Each begins with a line "--- file". Empty lines and those that begin with # say
// nothing.
func Read(text string) (edits []Edit, err error) {
	for line := range strings.Lines(text) {
		file, isFile := strings.CutPrefix(line, "--- ")
		switch {
		case isFile:
			edits = append(edits, Edit{File: strings.TrimSpace(file)})
		case strings.TrimSpace(line) == "" || line[0] == '#':
		case len(edits) == 0:
			return nil, fmt.Errorf("%q is not valid before the first file", strings.TrimSpace(line))
		default:
			if err := edits[len(edits)-1].Line(line); err != nil {
				return nil, err
			}
		}
	}
	return edits, nil
}

func (e *Edit) apply(text string) (string, error) {
	if n := strings.Count(text, e.Was); n != 1 || e.Was == "" {
		return "", fmt.Errorf("%s: the lines to change are there %d times, want once:\n%s", e.File, n, e.Was)
	}
	return strings.Replace(text, e.Was, e.Is, 1), nil
}

// Apply returns the changed files, by path.
func Apply(edits []Edit, read func(path string) ([]byte, error)) (map[string]string, error) {
	changed := map[string]string{}
	for i := range edits {
		e := &edits[i]
		text, known := changed[e.File]
		if !known {
			is, err := read(e.File)
			if err != nil {
				return nil, err
			}
			text = string(is)
		}
		after, err := e.apply(text)
		if err != nil {
			return nil, err
		}
		changed[e.File] = after
	}
	return changed, nil
}

// Write writes changed files to a directory, and the file for the flag -overlay of the go command, whose path
// it returns.
func Write(dir string, files map[string]string) (string, error) {
	replace := map[string]string{}
	for path, text := range files {
		real, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		replace[real] = filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		if err := os.WriteFile(replace[real], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, list, 0o600)
}
