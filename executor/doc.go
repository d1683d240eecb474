// Package executor performs attempts of runs: a command, an HTTP request, a function of the application.
//
// A command does not run directly under the worker but under a small supervisor, which is this same binary
// started again. The supervisor kills the command's whole process tree when the worker dies, when the worker
// is frozen past its lease, or when the worker tells it to. That makes "never twice at once" true for
// processes: the worker that should do the killing may itself be the one that is stopped. A program that runs
// commands therefore calls Supervise first in main.
//
// HTTP requests and functions cannot be killed from outside. For them the fence, which the target receives,
// makes one result the accepted one.
package executor
