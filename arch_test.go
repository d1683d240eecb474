package carillon_test

import (
	"bufio"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

const module = "github.com/carillon-run/carillon"

// mayImport is the arrow rule: cmd -> node -> {api, scheduler, dispatch, worker} -> ledger -> carillon <-
// adapter/*. A folder that is not listed may import no package of this module but the root package.
var mayImport = map[string][]string{
	".":               {"cron", "internal/suggest"},
	"cron":            {},
	"internal/ledger": {".", "internal/await", "internal/failpoint", "internal/idgen"},
	"internal/scheduler": {
		".", "internal/await", "internal/cluster", "internal/failpoint", "internal/jobjson",
		"internal/ledger", "worker/protocol",
	},
	"adapter/mem":        {".", "internal/cluster"},
	"internal/cluster":   {".", "worker/protocol"},
	"internal/idgen":     {"."},
	"internal/sqlcommon": {".", "internal/idgen"},
	"executor":           {"."},
	"adapter/mysql":      {".", "internal/sqlcommon"},
	"adapter/postgres":   {".", "internal/await", "internal/idgen", "internal/sqlcommon"},
	"adapter/sqlite":     {".", "internal/sqlcommon"},
	"internal/dispatch": {
		".", "internal/await", "internal/cluster", "internal/failpoint", "internal/ledger", "worker/protocol",
	},
	"worker":          {".", "executor", "internal/await", "internal/failpoint", "worker/protocol"},
	"worker/protocol": {"."},
	"api": {
		".", "cron", "internal/catalog", "internal/cluster", "internal/jobjson", "internal/suggest",
		"internal/waits", "internal/wire", "worker/protocol",
	},
	"workflow": {"."},
	"client":   {".", "internal/await", "internal/wire", "worker/protocol"},
	"porttest": {
		".", "adapter/mem", "executor", "internal/catalog", "internal/conductor", "internal/dispatch",
		"internal/idgen",
		"internal/ledger", "internal/operations", "internal/scheduler", "worker", "worker/protocol",
	},
	"internal/jobjson": {".", "internal/suggest"},
	"internal/wire":    {".", "internal/jobjson", "worker/protocol"},
	"internal/waits":   {".", "internal/wire"},
	"internal/catalog": {".", "internal/await"},
	"internal/conductor": {
		".", "internal/await", "internal/failpoint", "internal/idgen", "internal/ledger",
	},
	"internal/operations": {".", "internal/await", "internal/ledger"},
	"internal/outage":     {"."},
	"internal/carry":      {".", "internal/await"},
	"internal/owned":      {},
	"internal/suggest":    {},
	"internal/await":      {},
	"internal/failpoint":  {},
	"porttest/server":     {"porttest/skip"},
	"node": {
		".", "adapter/*", "api", "executor", "internal/await", "internal/carry", "internal/catalog",
		"internal/cluster", "internal/conductor",
		"internal/dispatch", "internal/idgen", "internal/ledger", "internal/operations", "internal/outage",
		"internal/owned", "internal/scheduler", "worker", "worker/protocol",
	},
	"cmd/carillon": {
		".", "client", "cron", "executor", "internal/owned", "internal/suggest", "internal/wire", "node",
		"worker", "worker/protocol",
	},
	"bench": {
		".", "adapter/mysql", "adapter/postgres", "adapter/sqlite", "client", "executor", "internal/idgen",
		"internal/ledger",
		"internal/wire", "node", "porttest/server", "worker",
	},
	"bench/part":        {".", "executor", "node"},
	"chaos":             {".", "chaos/check", "client", "executor", "porttest/server"},
	"planted":           {"internal/overlay"},
	"simulate/player":   {"internal/overlay"},
	"examples/go":       {".", "client", "executor", "worker"},
	"examples/logstore": {".", "executor", "node"},
}

// outside lists the libraries that a folder may use beyond the standard library. The core uses none.
var outside = map[string][]string{
	"internal/scheduler": {"golang.org/x/sync"},
	"internal/conductor": {"golang.org/x/sync"},
	"executor":           {"golang.org/x/sys"},
	"chaos":              {"golang.org/x/sys"},
	"adapter/sqlite":     {"zombiezen.com/go/sqlite", "modernc.org/sqlite"},
	"adapter/postgres":   {"github.com/jackc/pgx/v5"},
	"adapter/mysql":      {"github.com/go-sql-driver/mysql"},
	"node":               {"golang.org/x/sync", "github.com/prometheus/client_golang"},
	"cmd/carillon":       {"github.com/spf13", "github.com/goccy/go-yaml", "golang.org/x/term"},
	"porttest":           {"github.com/google/go-cmp"},
	"bench": {
		"golang.org/x/sync", "golang.org/x/sys", "zombiezen.com/go/sqlite", "github.com/jackc/pgx/v5",
		"github.com/go-sql-driver/mysql",
	},
}

// maxLines bounds a file; that of an adapter may be longer, because one cohesive file reads better there than
// five fragments.
const (
	maxLines        = 400
	maxAdapterLines = 600
)

// longer files, each with a reason.
var longer = map[string]string{}

func TestArchitecture(t *testing.T) {
	forGoFiles(t, func(path string) {
		test := strings.HasSuffix(path, "_test.go")
		most := maxLines
		if strings.HasPrefix(filepath.ToSlash(path), "adapter/") {
			most = maxAdapterLines
		}
		if n := lines(t, path); !test && n > most && longer[path] == "" {
			t.Errorf("%s has %d lines: at most %d, or a reason in arch_test.go", path, n, most)
		}
		if test || ownModule(path) {
			return // tests may import anything, and a separate module lists its own dependencies
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			checkImport(t, path, filepath.ToSlash(filepath.Dir(path)), imported)
		}
	})
}

// maxColumns bounds a line; a tab counts as four. Exceptions are an address that cannot be cut, the first
// line of a long raw string, such as a text for people, and in tests each line with a long string.
const maxColumns = 110

var (
	uncut    = regexp.MustCompile("https?://|^//go:|^[^`]*`[^`]*$")
	longData = regexp.MustCompile("\"(\\\\.|[^\"]){40,}|`|'[^']{40,}")
)

func TestLinesAreNotTooLong(t *testing.T) {
	migrations, err := filepath.Glob("adapter/*/migration/*.sql")
	if err != nil || len(migrations) == 0 {
		t.Fatal(migrations, err)
	}
	check := func(path string) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		test, raw := strings.HasSuffix(path, "_test.go"), false // raw: in a raw string
		for i, line := range strings.Split(string(b), "\n") {
			was := raw
			raw = raw != (strings.Count(line, "`")%2 == 1)
			comment := !was && strings.HasPrefix(strings.TrimSpace(line), "//")
			width := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
			switch {
			case width <= maxColumns:
			case !was && uncut.MatchString(line):
			case test && !comment && (was || longData.MatchString(line)):
			default:
				t.Errorf("%s:%d has %d columns: at most %d", path, i+1, width, maxColumns)
			}
		}
	}
	for _, path := range migrations {
		check(path)
	}
	forGoFiles(t, check)
}

// The parts of a node ask the clock that they were given, the store's; carillon.Now is the machine's.
func TestArchitectureOfTime(t *testing.T) {
	forGoFiles(t, func(path string) {
		if !regexp.MustCompile(`^(internal|api|node|worker)/`).MatchString(filepath.ToSlash(path)) ||
			strings.HasSuffix(path, "_test.go") {
			return
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "carillon.Now()") {
			t.Errorf("%s calls carillon.Now: a part of a node asks its Clock", path)
		}
	})
}

// Messages between a server and its clients are written once, in internal/wire.
func TestArchitectureOfMessages(t *testing.T) {
	forGoFiles(t, func(path string) {
		if !regexp.MustCompile(`^(api|client)/`).MatchString(filepath.ToSlash(path)) ||
			strings.HasSuffix(path, "_test.go") {
			return
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "`json:") {
			t.Errorf("%s has the type of a message: it belongs in internal/wire", path)
		}
	})
}

func checkImport(t *testing.T, path, dir, imported string) {
	t.Helper()
	if own, ok := strings.CutPrefix(imported, module); ok {
		own = strings.TrimPrefix(own, "/")
		if own == "" {
			own = "."
		}
		for _, allowed := range allowedFor(dir) {
			if allowed == own ||
				strings.HasSuffix(allowed, "/*") && strings.HasPrefix(own, strings.TrimSuffix(allowed, "*")) {
				return
			}
		}
		t.Errorf("%s imports %s: the arrow rule in arch_test.go does not allow it", path, own)
		return
	}
	if !strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") {
		return // standard library
	}
	for _, allowed := range outside[dir] {
		if imported == allowed || strings.HasPrefix(imported, allowed+"/") {
			return
		}
	}
	t.Errorf("%s imports %s: outside libraries are listed by folder in arch_test.go", path, imported)
}

func allowedFor(dir string) []string {
	if allowed, ok := mayImport[dir]; ok {
		return allowed
	}
	return []string{"."}
}

// ownModule says whether a file is in a folder that is a separate module.
func ownModule(path string) bool {
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// steppedOver are folders without code of this project, or with test data only.
var steppedOver = []string{"tools", "testdata", "node_modules"}

func forGoFiles(t *testing.T, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() &&
			(strings.HasPrefix(d.Name(), ".") && path != "." || slices.Contains(steppedOver, d.Name())) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") {
			visit(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func lines(t *testing.T, path string) (n int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		n++
	}
	return n
}
