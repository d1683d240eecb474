package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// once is the value of a flag that takes one value. Given twice it is refused, as the API refuses a parameter that is given
// twice: to use the last one would leave out a filter that was asked for, in silence.
type once struct {
	pflag.Value
	set bool
}

func (o *once) Set(text string) error {
	if o.set {
		return errors.New("want this flag once")
	}
	o.set = true
	return o.Value.Set(text)
}

// onceEach is for a command's own flags and those of the commands below it. Global flags can be given twice: an alias sets
// one, and the command line sets another.
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
