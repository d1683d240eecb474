package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version and commit are set by make: -ldflags "-X main.version=v1.2.3 -X main.commit=…".
var version, commit string

// build says what this binary is.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{
		Version: version, Commit: commit, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = cmp.Or(b.Version, info.Main.Version)
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Commit = cmp.Or(b.Commit, s.Value)
			}
		}
	}
	b.Version = cmp.Or(b.Version, "(devel)")
	return b
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this binary",
		Example: `  carillon version
  carillon version -o json`,
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			return a.show(b, func() {
				fmt.Fprintf(
					a.out, "carillon %s (%s, %s, %s)\n", b.Version, cmp.Or(b.Commit, "commit not known"),
					b.Go, b.Platform,
				)
			})
		},
	}
}
