package cron

import "fmt"

// Error says which field of an expression is wrong, what was given there, and what would have been right. It is meant
// to be shown to whoever wrote the expression.
type Error struct {
	Field string // "second", "minute", "hour", "day of month", "month", "day of week" or "expression"
	Given string
	Want  string
}

// Error quotes what was given in ASCII, since it may hold anything and may end up in a log or a terminal.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %+q is not valid: want %s", e.Field, e.Given, e.Want)
}
