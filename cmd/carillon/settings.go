package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillon-run/carillon/internal/suggest"
)

// settle gives each flag that was not set on the command line its value from the environment, or else from a
// config file. Errors say where a bad value came from; settle refuses an unknown key instead of ignoring it.
func settle(flags *pflag.FlagSet, config string, env func(string) (string, bool)) (origins, error) {
	if value, ok := env("CARILLON_CONFIG"); ok && config == "" {
		config = value
	}
	file, err := readSettings(flags, config)
	if err != nil {
		return nil, err
	}
	var bad error
	set := origins{}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || !isSetting(f) {
			return
		}
		from, value, ok := "the environment ("+envName(f.Name)+")", "", false
		if value, ok = env(envName(f.Name)); !ok {
			from = config
			value, ok = file[f.Name]
		}
		if !ok {
			return
		}
		set[f.Name] = from
		if err := flags.Set(f.Name, value); err != nil {
			bad = errors.Join(
				bad, fmt.Errorf("%s: %q from %s is not valid: %s", f.Name, value, from, reasonOf(err)),
			)
		}
	})
	return set, bad
}

// origins says for flags that were not set on the command line where their value comes from.
type origins map[string]string

// explain adds to an error that begins with a flag's name where the value came from: the flag, the
// environment or the file.
func (o origins) explain(err error) error {
	flag, _, named := strings.Cut(err.Error(), ":")
	if from, ok := o[flag]; ok {
		return fmt.Errorf("%w (from %s)", err, from)
	}
	if named && !strings.Contains(flag, " ") {
		return fmt.Errorf("--%w", err)
	}
	return err
}

// noteUnknown warns of environment variables that look like settings and are not: without the warning a
// misspelt setting would be ignored in silence. It does not refuse them, because other programs can use such
// names too. It ignores CARILLON_TEST_…: tests of Carillon itself use these, and start this program.
func noteUnknown(cmd *cobra.Command, environ []string) {
	known := []string{"CARILLON_CONFIG", "CARILLON_LEASH"}
	// All commands: one environment serves servers, workers and the command line.
	for _, c := range cmd.Root().Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, envName(f.Name)) })
	}
	cmd.Root().PersistentFlags().VisitAll(func(f *pflag.Flag) { known = append(known, envName(f.Name)) })
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "CARILLON_") && !strings.HasPrefix(name, "CARILLON_TEST_") &&
			!slices.Contains(known, name) && !slices.Contains(given, name) {
			fmt.Fprintf(
				cmd.ErrOrStderr(), "carillon: warning: the environment variable %s is not a setting of "+
					"Carillon%s\n", oneLine(name),
				suggest.DidYouMean(name, known),
			)
		}
	}
}

// given are the variables that commands of jobs get. A server that a job starts has them in its environment,
// so noteUnknown must not warn of them.
var given = []string{
	"CARILLON_RUN_ID", "CARILLON_JOB_ID", "CARILLON_JOB_NAME", "CARILLON_JOB_TYPE", "CARILLON_NAMESPACE",
	"CARILLON_ATTEMPT", "CARILLON_FENCE",
	"CARILLON_DUE_AT", "CARILLON_COVERS_AT", "CARILLON_CHECKPOINT_FILE", "CARILLON_RESULT_FILE",
}

// isSetting tells the settings of a command from the flags of the command line around it. The setting
// annotation marks a flag as a setting in spite of its name.
func isSetting(f *pflag.Flag) bool {
	return f.Annotations[setting] != nil ||
		!slices.Contains([]string{"help", "config", "server", "token", "output", "no-color"}, f.Name)
}

// setting marks a flag that the user can also set in the environment and in a file, although its name is that
// of a command line flag.
const setting = "setting"

func envName(flag string) string {
	return "CARILLON_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// reasonOf is pflag's error without its preamble.
func reasonOf(err error) string {
	var bad *strconv.NumError
	if errors.As(err, &bad) && bad.Func == "ParseBool" {
		return "want true or false"
	}
	_, reason, ok := strings.Cut(err.Error(), "flag: ")
	if !ok {
		return err.Error()
	}
	return reason
}

// readSettings reads a YAML file of flat keys: the flags' names with _ for -.
func readSettings(flags *pflag.FlagSet, path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	var raw map[string]any
	if err := yaml.Unmarshal(b, &raw); err != nil {
		return nil, fmt.Errorf("config %s: %w", path, err)
	}
	settings := map[string]string{}
	for key, value := range raw {
		name := strings.ReplaceAll(key, "_", "-")
		if flag := flags.Lookup(name); flag == nil || !isSetting(flag) || strings.Contains(key, "-") {
			return nil, fmt.Errorf(
				"config %s: unknown key %q: want one of %s", path, key, strings.Join(keys(flags), ", "),
			)
		}
		text, err := settingText(flags.Lookup(name), value)
		if err != nil {
			return nil, fmt.Errorf("config %s: %s: %w", path, key, err)
		}
		settings[name] = text
	}
	return settings, nil
}

// settingText is a value of the file in the form that a flag takes.
func settingText(flag *pflag.Flag, value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", errors.New("it has no value: want one, or leave the line out")
	case bool:
		if flag.Value.Type() == "bool" {
			return strconv.FormatBool(v), nil
		}
		return "", fmt.Errorf("want a text or a number, not %t", v)
	case map[string]any:
		return "", errors.New("want a value or a list, not a mapping")
	case []any:
		if !strings.HasSuffix(flag.Value.Type(), "Slice") {
			return "", fmt.Errorf(
				"want one value, not the list %q",
				strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ","), "[]"),
			)
		}
		items := make([]string, len(v))
		for i, item := range v {
			text, err := settingText(flag, item)
			if err != nil {
				return "", err
			}
			items[i] = text
		}
		return strings.Join(items, ","), nil
	}
	return fmt.Sprint(value), nil
}

func keys(flags *pflag.FlagSet) []string {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if isSetting(f) {
			names = append(names, strings.ReplaceAll(f.Name, "-", "_"))
		}
	})
	sort.Strings(names)
	return names
}
