package failpoint_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/carillon-run/carillon/internal/failpoint"
)

func TestEveryPointIsInTheCodeOnceAndNoOtherIs(t *testing.T) {
	call := regexp.MustCompile(`failpoint\.At\("([^"]*)"\)`)
	var found []string
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, match := range call.FindAllStringSubmatch(string(b), -1) {
			found = append(found, match[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(slices.Values(failpoint.Points))
	if slices.Sort(found); !slices.Equal(found, want) {
		t.Errorf("the code has the points\n%q, want\n%q", found, want)
	}
}
