package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"
)

// settle gives flags that were not set on the command line their value from the environment, or else from a config
// file. Errors say where a bad value came from; a key that means nothing is refused, not ignored.
func settle(flags *pflag.FlagSet, config string, env func(string) (string, bool)) error {
	if value, ok := env("CARILLON_CONFIG"); ok && config == "" {
		config = value
	}
	file, err := readSettings(flags, config)
	if err != nil {
		return err
	}
	var bad error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || !isSetting(f.Name) {
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
		if err := flags.Set(f.Name, value); err != nil {
			bad = errors.Join(bad, fmt.Errorf("%s: %q from %s is not valid: %s", f.Name, value, from, reasonOf(err)))
		}
	})
	return bad
}

// isSetting tells the server's own flags from those of the command line around it.
func isSetting(flag string) bool {
	return !slices.Contains([]string{"help", "config", "server", "token", "output", "no-color"}, flag)
}

func envName(flag string) string {
	return "CARILLON_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// reasonOf is what pflag has to say without its preamble.
func reasonOf(err error) string {
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
		if flags.Lookup(name) == nil || !isSetting(name) || strings.Contains(key, "-") {
			return nil, fmt.Errorf("config %s: unknown key %q: want one of %s", path, key, strings.Join(keys(flags), ", "))
		}
		text, err := settingText(value)
		if err != nil {
			return nil, fmt.Errorf("config %s: %s: %w", path, key, err)
		}
		settings[name] = text
	}
	return settings, nil
}

func settingText(value any) (string, error) {
	switch v := value.(type) {
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = fmt.Sprint(item)
		}
		return strings.Join(items, ","), nil
	case map[string]any:
		return "", errors.New("want a value or a list, not a mapping")
	}
	return fmt.Sprint(value), nil
}

func keys(flags *pflag.FlagSet) []string {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if isSetting(f.Name) {
			names = append(names, strings.ReplaceAll(f.Name, "-", "_"))
		}
	})
	sort.Strings(names)
	return names
}
