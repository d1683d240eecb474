package cron_test

import (
	"archive/zip"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon/cron"
)

// tzdata maps zone names to their files in the copy of the tz database that comes with Go. The tests do not
// use the system's copy, which may be old, trimmed or missing.
var tzdata = sync.OnceValues(func() (map[string][]byte, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	archive, err := zip.OpenReader(filepath.Join(
		strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip",
	))
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	zones := map[string][]byte{}
	for _, f := range archive.File {
		if f.FileInfo().IsDir() {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		if zones[f.Name], err = io.ReadAll(r); err != nil {
			return nil, err
		}
	}
	return zones, nil
})

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	zones, err := tzdata()
	if err != nil {
		t.Fatalf("the tz database of Go is needed: %v", err)
	}
	loc, err := time.LoadLocationFromTZData(name, zones[name])
	if err != nil {
		t.Fatalf("zone %q: %v", name, err)
	}
	return loc
}

func parse(t testing.TB, expr string, loc *time.Location) *cron.Schedule {
	t.Helper()
	s, err := cron.Parse(expr, loc)
	if err != nil {
		t.Fatalf("parse %q: %v", expr, err)
	}
	return s
}

// stamp is the layout of times in the tables below.
const stamp = "2006-01-02 15:04:05 -0700"

func at(t testing.TB, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(stamp, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
