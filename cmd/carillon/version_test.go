package main

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

func TestVersionNamesTheBuild(t *testing.T) {
	a, out := offline()
	if code := a.run(t.Context(), []string{"version", "-o", "json"}); code != 0 {
		t.Fatal(code, out)
	}
	var b build
	if err := json.Unmarshal(out.Bytes(), &b); err != nil || b.Version == "" || b.Go != runtime.Version() ||
		!strings.Contains(b.Platform, "/") {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestVersionHasTheCommitThatMakeStamped(t *testing.T) {
	version, commit = "v1.2.3", "0123456789abcdef"
	defer func() { version, commit = "", "" }()
	a, out := offline()
	if code := a.run(t.Context(), []string{"version"}); code != 0 ||
		!strings.HasPrefix(out.String(), "carillon v1.2.3 (0123456789abcdef, go") {
		t.Error(code, out)
	}
}
