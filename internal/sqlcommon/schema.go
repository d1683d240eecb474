package sqlcommon

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
)

// Migration is one step of a schema: numbered, forward only.
type Migration struct {
	Version int
	Name    string
	SQL     string
}

// Migrations are the steps in a folder named migration, in order. Each file's name begins with its number.
func Migrations(folder fs.FS) []Migration {
	names, err := fs.Glob(folder, "migration/*.sql") // sorted
	if err != nil {
		panic(err) // the pattern is wrong
	}
	all := make([]Migration, len(names))
	for i, path := range names {
		script, err := fs.ReadFile(folder, path)
		name := strings.TrimPrefix(path, "migration/")
		digits, _, _ := strings.Cut(name, "_")
		version, bad := strconv.Atoi(digits)
		if err := errors.Join(err, bad); err != nil {
			panic(err) // the embedded files are wrong
		}
		all[i] = Migration{version, name, string(script)}
	}
	return all
}
