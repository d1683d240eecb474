package executor

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/carillon-run/carillon"
)

func TestCommandsRunOnlyWhereTheyHaveAPlace(t *testing.T) {
	handlers := map[string]Handler{"mail": func(context.Context, Task) error { return nil }}
	all, release, err := All(t.Context(), AllConfig{Handlers: handlers})
	if got := slices.Sorted(maps.Keys(all)); err != nil || !slices.Equal(got, []string{"handler", "http"}) {
		t.Errorf("%v, %v", got, err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if types := all["handler"].(*Funcs).Types(); !slices.Equal(types, []string{"mail"}) {
		t.Errorf("handlers for %v", types)
	}

	dir := t.TempDir()
	left := filepath.Join(dir, "tmp", "left behind")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	c := AllConfig{Leash: filepath.Join(dir, "lock"), TempDir: filepath.Join(dir, "tmp")}
	all, release, err = All(t.Context(), c)
	if got := slices.Sorted(maps.Keys(all)); err != nil ||
		!slices.Equal(got, []string{"command", "handler", "http"}) {
		t.Fatalf("%v, %v", got, err)
	}
	unattended := 2 // workflow and wait, which no worker performs
	if n := reflect.TypeFor[carillon.Target]().NumField() - unattended; len(all) != n {
		t.Errorf("there are %d kinds of targets, and executors for %d of them (all.go)", n, len(all))
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("what was left behind: %v", err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if _, _, err := All(t.Context(), AllConfig{
		Leash: filepath.Join(dir, "nowhere", "lock"), TempDir: dir,
	}); err == nil {
		t.Error("a leash in a directory that does not exist was held")
	}
}
