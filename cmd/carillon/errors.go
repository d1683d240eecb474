package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

// Exit codes of the process. Scripts rely on them; the help of the root command lists them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitUnreachable = 4
	exitInterrupted = 130 // 128 + SIGINT, as shells have it
)

// usageError is about the words that the user typed. It has its own exit code, so that scripts do not try
// again.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usage(format string, args ...any) error { return &usageError{text: fmt.Sprintf(format, args...)} }

// missing is an error about something that does not exist. Its text says so already, so it does not add the
// words of ErrNotFound.
type missing struct{ text string }

func (e *missing) Error() string { return e.text }
func (e *missing) Unwrap() error { return carillon.ErrNotFound }

func notFound(format string, args ...any) error { return &missing{text: fmt.Sprintf(format, args...)} }

// noted is an error with lines to show below it.
type noted struct {
	error
	lines []string
}

func (n *noted) Unwrap() error { return n.error }

// told is an error that has been printed already; only its exit code counts.
type told struct{ error }

func (t *told) Unwrap() error { return t.error }

// errQuiet ends the process with exit code 1 and no message: the command has already shown what happened.
var errQuiet = errors.New("failed")

// exit prints the error as one line and turns it into the exit code.
func (a *app) exit(ctx context.Context, cmd *cobra.Command, err error) int {
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) { // the user pressed Ctrl-C, and needs no message
		return exitInterrupted
	}
	if errors.Is(err, errQuiet) {
		return exitFailed
	}
	var printed *told
	if errors.As(err, &printed) {
		return exitCode(err)
	}
	code, text := exitCode(err), err.Error()
	var unknown *client.UnknownOutcome
	var away *client.Unreachable
	var problem *client.Problem
	switch {
	case !a.began:
		code = exitUsage
		text += fmt.Sprintf(" (see %q)", cmd.CommandPath()+" --help")
	case errors.As(err, &unknown): // its text has both of its errors
	case errors.As(err, &away):
		text = a.describeUnreachable(away)
	case errors.As(err, &problem) && problem.Status == http.StatusUnauthorized:
		text = a.describeRefused()
	}
	fmt.Fprintln(a.err, "carillon: "+oneLine(text))
	var more *noted
	if errors.As(err, &more) {
		for _, line := range more.lines {
			fmt.Fprintln(a.err, oneLine(line))
		}
	}
	return code
}

func exitCode(err error) int {
	var wrong *usageError
	var unknown *client.UnknownOutcome
	var away *client.Unreachable
	switch {
	case errors.As(err, &unknown) && !errors.As(unknown.Last, &away):
		return exitFailed
	case errors.As(err, &away):
		return exitUnreachable
	case errors.Is(err, carillon.ErrNotFound):
		return exitNotFound
	case errors.As(err, &wrong), errors.Is(err, carillon.ErrInvalid):
		return exitUsage
	}
	return exitFailed
}

// oneLine keeps a message on one line, and keeps a server's text from moving the terminal's cursor.
func oneLine(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd") // a single invalid byte can begin a control sequence, too
	return strings.Join(
		strings.FieldsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || isC1(r) }), " ",
	)
}
