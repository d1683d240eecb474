package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillon-run/carillon"
)

// definition are the flags that define a job: one flag for one field of its JSON. The command line sends only
// the fields that were given, so the server sets all defaults, and does all checks that need more than the
// flag itself.
type definition struct {
	a      *app
	edit   bool // "key-" removes an entry
	fields []*fieldFlag
}

// fieldFlag is a flag and the place of its value in the definition.
type fieldFlag struct {
	path  string // dotted, as in the API's errors
	kind  string // for the help
	many  bool   // can be repeated
	parse func(text string, before any) (any, error)
	text  string
	value any // nil: not given
	// optional says that an empty text removes the field.
	optional bool
}

// removed is the value of a field that an edit removes.
type removed struct{}

func (f *fieldFlag) String() string { return f.text }
func (f *fieldFlag) Type() string   { return f.kind }

func (f *fieldFlag) Set(text string) (err error) {
	f.text = text
	if f.optional && text == "" {
		f.value = removed{}
		return nil
	}
	f.value, err = f.parse(text, f.value)
	return err
}

func (a *app) definitionFlags(cmd *cobra.Command, edit bool) *definition {
	d := &definition{a: a, edit: edit}
	flags := cmd.Flags()
	flags.SortFlags = false
	d.addTarget(flags)
	d.add(flags, "name", "name", "text", text, "name of the job (default its type)")
	d.add(
		flags, "type", "type", "word", text, "kind of work, such as email.send (default command or http)",
	)
	d.add(
		flags, "owner", "owner", "word", text,
		`user or application that the job belongs to (default "default")`,
	)
	d.add(
		flags, "queue", "queue", "word", text,
		`queue of the job; workers choose the queues they serve (default "default")`,
	)
	d.add(
		flags, "needs", "needs", "key=value", d.pairs("="),
		"label that a worker must have to get the job's runs; can be repeated",
	)
	d.add(
		flags, "priority", "priority", "0-9", number,
		"priority of its runs; a higher one starts first (default 5)",
	)
	d.add(
		flags, "fair-by", "fair_by", "word", text,
		"key, such as a customer, whose runs take turns with those of other keys in the queue; "+
			`"owner" is the job's owner`,
	)
	d.add(
		flags, "fair-weight", "fair_weight", "1-100", number,
		"number of turns of the key where others have one (default 1)",
	)
	d.add(
		flags, "limit", "limits", "key=number[,rate]", limits,
		"bound on the runs with a key: how many at the same time, a rate of starts, or both, as in "+
			"customer-42=3, api=10/s or api=3,100/m,burst=10,weight=2; can be repeated",
	)
	d.addUnique(flags)
	d.add(flags, "label", "labels", "key=value", d.pairs("="), "label of the job; can be repeated")
	d.add(
		flags, "payload", "payload", "JSON", d.payload,
		"payload for the target; @file reads it from a file, - from standard input",
	)
	d.addSchedule(flags)
	d.add(
		flags, "timeout", "timeout", "duration", duration,
		"time limit of one attempt; 0s means none (default none, 30s for http)",
	)
	d.add(
		flags, "max-attempts", "retry.max_attempts", "number", number,
		"number of failed attempts after which the run is a dead letter (default 3)",
	)
	d.add(
		flags, "backoff", "retry.backoff", "word", text,
		"how the delay between attempts grows: exponential or fixed (default exponential)",
	)
	d.add(
		flags, "retry-delay", "retry.delay", "duration", duration,
		"delay before the second attempt (default 1s)",
	)
	d.add(
		flags, "retry-max-delay", "retry.max_delay", "duration", duration,
		"longest delay between attempts (default 10m)",
	)
	d.add(
		flags, "retry-rule", "retry.rules", "rule", retryRules,
		"what follows some failures, as in exit=75,after=5m or status=4xx,fatal or "+
			"max_attempts=10,match=timeout; the first that matches decides; can be repeated",
	)
	d.add(
		flags, "pause-after", "pause_after", "number", number,
		"number of failed runs in a row after which the job is paused; 0 means never (default never)",
	)
	d.add(
		flags, "overlap", "overlap", "word", text,
		"policy for a run that is due while another one is unfinished: skip, queue, queue_all, replace or "+
			"allow (default skip)",
	)
	d.add(
		flags, "misfire", "misfire.policy", "word", text,
		"policy for due times missed in a downtime: skip, once or all (default once)",
	)
	completeWords(cmd, "backoff", "exponential", "fixed")
	completeWords(cmd, "overlap", "skip", "queue", "queue_all", "replace", "allow")
	completeWords(cmd, "on-conflict", "return", "replace", "refuse")
	completeWords(cmd, "misfire", "skip", "once", "all")
	completeWords(cmd, "method", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
	return d
}

// addUnique adds the flags of the unique key. A job keeps the key that it was submitted with.
func (d *definition) addUnique(flags *pflag.FlagSet) {
	if !d.edit {
		d.add(
			flags, "unique", "unique.key", "word", text,
			"key of which there is one job at a time",
		)
		d.add(
			flags, "unique-for", "unique.for", "duration", duration,
			"how long the job holds its unique key (default until it has ended)",
		)
	}
	d.add(
		flags, "on-conflict", "unique.on_conflict", "word", text,
		"what a submit does if another job holds its unique key: return that job, replace it, or refuse "+
			"(default return)",
	)
}

func (d *definition) addTarget(flags *pflag.FlagSet) {
	d.add(flags, "shell", "target.command.shell", "line", text, "run this line with /bin/sh")
	d.add(
		flags, "env", "target.command.env", "key=value", d.pairs("="),
		"environment variable of the command; can be repeated",
	)
	d.add(
		flags, "dir", "target.command.dir", "path", text,
		"absolute path of the working directory of the command",
	)
	d.add(
		flags, "fatal-exit-codes", "target.command.fatal_exit_codes", "codes", numbers,
		"exit codes after which the command is not tried again, separated by commas",
	)
	d.add(flags, "http", "target.http.url", "URL", text, "make an HTTP request to this URL")
	d.add(flags, "method", "target.http.method", "word", upper, "method of the HTTP request (default POST)")
	d.add(
		flags, "header", "target.http.headers", "name:value", d.pairs(":"),
		"header of the HTTP request; can be repeated",
	)
	d.add(
		flags, "body", "target.http.body", "text", text,
		"body of the HTTP request, a template (default the payload)",
	)
	d.add(
		flags, "handler", "target.handler", "bool", empty,
		"call the function that a worker registered for the type of the job",
	)
	flags.Lookup("handler").NoOptDefVal = "true"
}

func (d *definition) addSchedule(flags *pflag.FlagSet) {
	d.add(
		flags, "at", "schedule.at", "time", instant,
		`run once at this time: "2026-03-29T02:30:00+01:00", or "2026-03-29 02:30" in the zone of --tz`,
	)
	d.add(
		flags, "after", "schedule.after", "duration", duration, "run once after this delay: 90s, 1h30m, 30d",
	)
	d.add(
		flags, "cron", "schedule.cron", "expression", text,
		"run at the times of this cron expression: 5 or 6 fields, or a name such as @hourly",
	)
	d.add(
		flags, "tz", "schedule.timezone", "zone", text,
		"IANA time zone of --cron and of times without an offset (default UTC for --cron)",
	)
	d.add(
		flags, "every", "schedule.every", "duration", duration,
		"run again and again with this period, at least 1s",
	)
	d.add(flags, "starts-at", "schedule.starts_at", "time", instant, "make no run due before this time")
	d.add(flags, "ends-at", "schedule.ends_at", "time", instant, "make no run due after this time")
	d.add(
		flags, "max-runs", "schedule.max_runs", "number", number,
		"end the schedule after this number of runs",
	)
	for _, f := range d.fields {
		f.optional = d.edit &&
			slices.Contains(
				[]string{"schedule.timezone", "schedule.starts_at", "schedule.ends_at", "schedule.max_runs"},
				f.path,
			)
	}
}

func (d *definition) add(
	flags *pflag.FlagSet, name, path, kind string, parse func(string, any) (any, error), usage string,
) {
	f := &fieldFlag{
		path: path, kind: kind, parse: parse,
		many: slices.Contains(
			[]string{"label", "needs", "limit", "env", "header", "fatal-exit-codes", "retry-rule"}, name,
		),
	}
	d.fields = append(d.fields, f)
	if d.edit { // a field that is not given keeps its value, so no default applies
		usage, _, _ = strings.Cut(usage, " (default ")
	}
	flags.Var(f, name, usage)
}

// doc is a JSON object on its way to the server.
type doc map[string]any

// given is the JSON of the flags and of the argv after them.
func (d *definition) given(argv []string) doc {
	given := doc{}
	for _, f := range d.fields {
		switch f.value.(type) {
		case nil:
		case removed:
			given.set(f.path, nil)
		default:
			given.set(f.path, f.value)
		}
	}
	if len(argv) > 0 {
		given.set("target.command.argv", argv)
	}
	return given
}

func (o doc) set(path string, value any) {
	name, rest, nested := strings.Cut(path, ".")
	if !nested {
		o[name] = value
		return
	}
	if o[name] == nil {
		o[name] = doc{}
	}
	o[name].(doc).set(rest, value)
}

// The forms that a flag's text can have. Each function also gets the flag's value so far, for flags that can
// be repeated.

func text(s string, _ any) (any, error) { return s, nil }

func upper(s string, _ any) (any, error) { return strings.ToUpper(s), nil }

// empty is an object without fields, for a flag that is either present or not.
func empty(s string, _ any) (any, error) {
	if there, err := strconv.ParseBool(s); err != nil || !there {
		return nil, err
	}
	return doc{}, nil
}

func number(s string, _ any) (any, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return nil, fmt.Errorf("want a number")
	}
	return n, nil
}

func numbers(s string, before any) (any, error) {
	list, _ := before.([]int)
	for item := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(item))
		if err != nil {
			return nil, fmt.Errorf("want numbers, separated by commas")
		}
		list = append(list, n)
	}
	return list, nil
}

func duration(s string, _ any) (any, error) {
	d := new(carillon.Duration)
	return s, d.Set(s)
}

func instant(s string, _ any) (any, error) {
	at, wall, err := readTime(s)
	switch {
	case err != nil:
		return nil, err
	case wall != nil:
		return wall, nil // see resolveTimes
	}
	return at.Format(time.RFC3339Nano), nil
}

func (d *definition) pairs(separator string) func(string, any) (any, error) {
	return func(s string, before any) (any, error) {
		pairs, ok := before.(doc)
		if !ok {
			pairs = doc{}
		}
		key, text, ok := strings.Cut(s, separator)
		var value any = strings.TrimPrefix(text, " ")
		switch {
		case ok && key != "":
			key = strings.TrimSpace(key)
		case d.edit && len(s) > 1 && strings.HasSuffix(s, "-"):
			key, value = strings.TrimSuffix(s, "-"), nil
		default:
			return nil, fmt.Errorf("want key%svalue", separator)
		}
		if _, given := pairs[key]; given {
			return nil, fmt.Errorf("want each key only once, and %q is given twice", key)
		}
		pairs[key] = value
		return pairs, nil
	}
}

func (d *definition) payload(s string, _ any) (any, error) {
	payload, err := d.a.readPayload(s)
	return payload, err
}

// readPayload reads the payload that --payload names.
func (a *app) readPayload(s string) (json.RawMessage, error) {
	data := []byte(s)
	var err error
	switch {
	case s == "-":
		data, err = io.ReadAll(a.in)
	case strings.HasPrefix(s, "@"):
		data, err = os.ReadFile(s[1:])
	}
	if err != nil {
		return nil, err
	}
	if !json.Valid(data) {
		return nil, fmt.Errorf(`want JSON, such as {"n":1}, "text" in quotes, @file or -`)
	}
	return data, nil
}
