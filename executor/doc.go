// Package executor performs attempts of runs: a command, an HTTP request, a function of the application.
//
// A command does not run under the worker but under a small supervisor of its own, this same binary started again,
// which kills the command's whole process tree when the worker dies, when the worker is frozen past its lease, or when
// it is told to. That is what makes "never twice at once" true for processes: the worker that should do the killing may
// be the one that is stopped. A program that runs commands therefore calls Supervise first thing in main.
//
// HTTP requests and functions cannot be killed from outside. For them the fence, which the target is given, makes one
// result the accepted one.
package executor
