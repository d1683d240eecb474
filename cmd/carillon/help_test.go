package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

func TestHelpIsNoWiderThanItsWidth(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		cmd.InitDefaultHelpFlag()
		for line := range strings.SplitSeq(cmd.Long+"\n"+cmd.UsageString(), "\n") {
			if utf8.RuneCountInString(line) > helpWidth {
				t.Errorf("%s: %q has more than %d columns", cmd.CommandPath(), line, helpWidth)
			}
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(newApp().root())
}
