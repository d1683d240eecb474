package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/porttest"
)

func TestLogs(t *testing.T) {
	porttest.Logs(t, func(t *testing.T) carillon.LogStore { return NewLogs(t.TempDir()) })
}

func TestANodeWritesToTheLogsOfTheProgramThatEmbedsIt(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := hello(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "output", "namespace.default", "run_*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	lines, err := read(files[0])
	if err != nil || len(lines) != 1 || !strings.HasPrefix(string(lines[0].Text), "hello from example") {
		t.Errorf("%+v, %v", lines, err)
	}
}
