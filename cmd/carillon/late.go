package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
)

func lateFlag(cmd *cobra.Command, late *bool) {
	cmd.Flags().BoolVar(
		late, "late", false,
		"accept a time of --at that has passed; the job is then due at once",
	)
}

// refuseLate refuses a time that passed more than a minute ago, unless the user says --late. The API accepts
// such a time and runs the job at once, which is right for a program that is late; a person has more likely
// mistyped the year.
func (a *app) refuseLate(given doc, late bool) error {
	schedule, _ := given["schedule"].(doc)
	text, _ := schedule["at"].(string)
	if words := a.passed(text); words != "" && !late {
		return usage("--at: %s", words)
	}
	return nil
}

// refuseLateIn is refuseLate for the jobs of a file.
func (a *app) refuseLateIn(file string, defs []written, late bool) error {
	if file == "" {
		return nil
	}
	for i := range defs {
		var def struct {
			Schedule struct{ At string }
		}
		if late || !bytes.Contains(defs[i].body, []byte(`"at"`)) ||
			json.Unmarshal(defs[i].body, &def) != nil {
			continue
		}
		if words := a.passed(def.Schedule.At); words != "" {
			return usage("%s: schedule.at: %s", inLine(file, &defs[i], i, "schedule.at"), words)
		}
	}
	return nil
}

// passed says how long ago a time passed; "" if it has not, or less than a minute ago.
func (a *app) passed(text string) string {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || a.now().Sub(at) < time.Minute {
		return ""
	}
	return fmt.Sprintf("%s has passed (%s), so the job would run at once; give --late if you want that",
		a.stamp(carillon.TimeOf(at)), relative(at, a.now()))
}

// noteFlagsBehind warns of flags that the user meant for this command, but that the program gets because they
// follow it.
func (a *app) noteFlagsBehind(cmd *cobra.Command, argv []string) {
	for _, arg := range argv {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if strings.HasPrefix(arg, "--") && name != "help" && cmd.Flags().Lookup(name) != nil {
			fmt.Fprintf(a.err,
				"carillon: --%s comes after the program %q, so the program gets it. Flags for carillon go "+
					"before the program. If the program should get it, write -- before the program.\n",
				oneLine(name), oneLine(argv[0]))
			return
		}
	}
}
