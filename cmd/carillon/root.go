package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/carillon-run/carillon/internal/suggest"
)

// app is one call of the command line: where it reads and writes, its clock, and its global flags. Tests make
// their own app.
type app struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) string
	now      func() time.Time
	zone     *time.Location // times are shown in it
	terminal bool           // out is a terminal
	width    int            // of that terminal, in columns; 0: not known
	height   int            // of that terminal, in lines; 0: not known
	http     *http.Client   // nil: the client's own
	// errTerminal says that err is a terminal, so that the command can show progress there.
	errTerminal bool
	inTerminal  bool // in is a terminal, so that the command can ask there

	server, token, data string
	tokenFile           string // of a worker
	format              string
	noColor             bool

	// raw and rawErr are out and err without safeTerminal around them, even if they are terminals.
	raw, rawErr io.Writer
	connected   bool // the command had a connection to a server
	began       bool // the command itself was reached; an error before that is wrong usage
}

func newApp() *app {
	width, height, err := term.GetSize(int(os.Stdout.Fd()))
	return &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Getenv, now: time.Now, zone: time.Local,
		terminal: err == nil, width: width, height: height, errTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		inTerminal: term.IsTerminal(int(os.Stdin.Fd())),
	}
}

// run performs one command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	a.raw, a.rawErr = a.out, a.err
	if a.terminal {
		a.out = &safeTerminal{a.out, a.wantsColours}
	}
	if a.errTerminal {
		a.err = &safeTerminal{a.err, a.wantsColours}
	}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	cmd, err := root.ExecuteContextC(ctx)
	return a.exit(ctx, cmd, err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "carillon",
		Short: "A job scheduler: one-time and recurring jobs, on time, at least once, never twice at once",
		Long: `Carillon takes one-time and recurring jobs, keeps them safe on disk, and runs each of them on time.

"carillon serve" starts a server. "carillon worker" performs runs for servers on other machines.
The commands for jobs and runs talk to a server. They find a server on this machine, and its token,
through the data directory, so there is nothing to set up at first.

Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 not found, 4 no server reached.`,
		Example: `  carillon serve
  carillon submit --name hello --after 2s -- echo hello
  carillon jobs
  carillon logs -f run_0f8j2v5r3c0001jgq9k2w0m`,
		SilenceErrors:     true, // exit prints them, in one form
		SilenceUsage:      true,
		RunE:              nothingNamed,
		Args:              cobra.ArbitraryArgs, // nothingNamed has the better error for an unknown command
		DisableAutoGenTag: true,
	}
	root.AddGroup(
		&cobra.Group{ID: "jobs", Title: "Jobs:"},
		&cobra.Group{ID: "runs", Title: "Runs:"},
		&cobra.Group{ID: "queues", Title: "Queues and limits:"},
		&cobra.Group{ID: "other", Title: "Server and tools:"},
	)
	root.SetFlagErrorFunc(flagError)
	wrapped := fmt.Sprintf(".FlagUsagesWrapped %d ", helpWidth)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ", wrapped))
	a.globalFlags(root)
	a.add(root, "jobs", a.submitCommand(), a.jobsCommand(), a.jobCommand(), a.editCommand(), a.pauseCommand(),
		a.resumeCommand(), a.cancelCommand(), a.operationsCommand(), a.nextCommand(), a.refusedCommand())
	a.add(root, "runs", a.runsCommand(), a.runCommand(), a.logsCommand(), a.retryCommand(), a.deadCommand(),
		a.workflowCommand())
	a.add(root, "queues", a.queueCommand(), a.namespaceCommand(), a.limitCommand(), a.gateCommand())
	a.add(
		root, "other", serveCommand(), migrateCommand(), a.workerCommand(), a.membersCommand(),
		a.cronCommand(), a.versionCommand(),
	)
	root.SetHelpCommand(helpCommand())
	root.SetHelpCommandGroupID("other")
	root.SetCompletionCommandGroupID("other")
	return root
}

// helpWidth is the width of the help in columns, also on a wider terminal: long lines are hard to read.
const helpWidth = 100

func (a *app) globalFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(
		&a.server, "server", "",
		"`URL` of the server (default $CARILLON_SERVER, else the local server's, else "+defaultServer+")",
	)
	flags.StringVar(
		&a.token, "token", "", "access `token` (default $CARILLON_TOKEN, else the local server's)",
	)
	flags.StringVar(
		&a.data, "data", cmp.Or(a.env("CARILLON_DATA"), defaultData),
		"data `directory` of the local server; also $CARILLON_DATA",
	)
	flags.StringVarP(
		&a.format, "output", "o", "table", "`format` of the output: "+strings.Join(formats, ", "),
	)
	flags.BoolVar(&a.noColor, "no-color", false, "print no colours on a terminal; also $NO_COLOR")
	_ = root.RegisterFlagCompletionFunc(
		"output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp),
	)
	_ = root.MarkPersistentFlagDirname("data")
}

// add puts commands under root. Each command, and each below it, sets began when it is reached: an error
// before that is about flags and arguments, no matter which part of cobra it comes from.
func (a *app) add(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, cmd := range commands {
		cmd.GroupID = group
		a.noteBegin(cmd)
		onceEach(cmd)
		root.AddCommand(cmd)
	}
}

func (a *app) noteBegin(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(formats, a.format) {
				return usage("--output: %q is not valid: want %s", a.format, strings.Join(formats, ", "))
			}
			a.began = true
			return run(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		a.noteBegin(sub)
	}
}

// helpCommand replaces cobra's own, which answers an unknown command with the whole help.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) > 0 {
				return nothingNamed(found, rest)
			}
			if err != nil {
				return err
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// nothingNamed is called where cobra found no command. Without arguments it shows the help.
func nothingNamed(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var known []string
	for _, sub := range cmd.Commands() {
		known = append(known, sub.Name())
	}
	return fmt.Errorf("there is no command %q%s", args[0], suggest.DidYouMean(args[0], known))
}

// subcommand is for a command that does nothing without one below it.
func subcommand(cmd *cobra.Command, args []string) error {
	if err := nothingNamed(cmd, args); err != nil {
		return usage("%s", err)
	}
	return nil
}

// flagError words an error about a flag as all other errors about a value are worded.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1 {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if near := suggest.Nearest(unknown.GetSpecifiedName(), known); near != "" {
			return fmt.Errorf("unknown flag: --%s; did you mean --%s?", unknown.GetSpecifiedName(), near)
		}
		return err
	}
	var bad *pflag.InvalidValueError
	var number *strconv.NumError
	if errors.As(err, &bad) {
		if errors.As(err, &number) && bad.GetFlag().Value.Type() == "int" {
			return fmt.Errorf("--%s: %q is not valid: want a number", bad.GetFlag().Name, bad.GetValue())
		}
		return fmt.Errorf(
			"--%s: %q is not valid: %w", bad.GetFlag().Name, shorten(bad.GetValue(), 80), bad.Unwrap(),
		)
	}
	return err
}

// none is for commands that take no argument.
func none(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments; given %q", cmd.Name(), args[0])
	}
	return nil
}

// some is for commands that take one argument or more.
func some(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("want a %s, or several of them; given none", what)
		}
		return nil
	}
}

// two is for commands that take exactly two arguments.
func two(first, second string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 2 {
			return fmt.Errorf("want a %s and the %s; given %s", first, second, count(len(args), "argument"))
		}
		return nil
	}
}

// one is for commands that take exactly one argument.
func one(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("want one %s; given %s", what, count(len(args), "argument"))
		}
		return nil
	}
}
