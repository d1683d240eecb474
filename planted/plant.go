package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"

	"github.com/carillon-run/carillon/internal/overlay"
)

// limit ends tests that hang because of a bug.
const limit = "10m"

// plant runs the tests of a bug with the bug in the code, and returns the test that failed; empty: none.
func plant(ctx context.Context, b bug) (by string, err error) {
	dir, err := os.MkdirTemp("", "carillon-planted-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	files, err := overlay.Apply(b.edits, os.ReadFile)
	if err != nil {
		return "", err
	}
	list, err := overlay.Write(dir, files)
	if err != nil {
		return "", err
	}
	return test(ctx, b.tests, "-overlay", list)
}

// test runs tests, and returns the one that failed; empty: none.
func test(ctx context.Context, tests []string, flags ...string) (by string, err error) {
	args := append([]string{"test", "-vet=off", "-failfast", "-timeout", limit}, flags...)
	out, err := exec.CommandContext(ctx, "go", append(args, tests...)...).CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil:
		return "", errors.New("interrupted")
	case !errors.As(err, &exit):
		return "", err
	}
	if by = culprit(string(out)); by == "" || strings.Contains(string(out), "[build failed]") {
		return "", fmt.Errorf("the tests did not run:\n%s", out)
	}
	return by, nil
}

var (
	failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	hung   = regexp.MustCompile(`(?m)^running tests:\n\t(\S+)`)
	died   = regexp.MustCompile(`(?m)^(panic|fatal error): .*`)
)

// culprit is the first test that failed; empty if no test ran, as when the bug does not compile.
func culprit(out string) string {
	if m := hung.FindStringSubmatch(out); m != nil {
		return m[1] + ", which did not end"
	}
	// A test comes before its subtests: the last of a row of them says more.
	if all := failed.FindAllStringSubmatch(out, -1); len(all) > 0 {
		name := all[0][1]
		for _, m := range all[1:] {
			if strings.HasPrefix(m[1], name+"/") {
				name = m[1]
			}
		}
		return name
	}
	return strings.TrimSpace(died.FindString(out))
}
