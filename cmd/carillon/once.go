package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// once is the value of a flag that takes one value. It refuses a second one, as the API refuses a parameter
// that is given twice: using only the last one would drop, in silence, a filter that the user asked for.
type once struct {
	pflag.Value
	set bool
}

func (o *once) Set(text string) error {
	if o.set {
		return errors.New("want this flag only once")
	}
	o.set = true
	return o.Value.Set(text)
}

// onceEach wraps the flags of a command and of the commands below it. Global flags can be given twice: an
// alias sets one, and the command line sets it again.
func onceEach(cmd *cobra.Command) {
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		field, isField := f.Value.(*fieldFlag)
		list := strings.HasSuffix(f.Value.Type(), "Slice") || strings.HasSuffix(f.Value.Type(), "Array")
		if !list && f.NoOptDefVal == "" && !(isField && field.many) {
			f.Value = &once{Value: f.Value}
		}
	})
	for _, sub := range cmd.Commands() {
		onceEach(sub)
	}
}
