package cron

import (
	"fmt"
	"strings"
)

// Error says which field of an expression is wrong, what was given there, and what would have been right. It
// is meant for the author of the expression.
type Error struct {
	Field string // "second", "minute", "hour", "day of month", "month", "day of week" or "expression"
	Given string
	Want  string
}

// Error quotes the given text in ASCII, because it can hold anything and can end up in a log or a terminal.
func (e *Error) Error() string { return e.wrong("%+q") + ": want " + e.Want }

// Wrong is the first half of the error: minute "61" is out of range.
func (e *Error) Wrong() string { return e.wrong("%q") }

func (e *Error) wrong(quoted string) string {
	text := fmt.Sprintf(quoted, e.Given)
	switch {
	case e.Want == wantNoZone:
		return text + " is a time zone"
	case e.Want == wantFields && len(strings.Fields(e.Given)) == 1:
		return text + " has 1 field"
	case e.Want == wantFields && e.Given != "":
		return fmt.Sprintf("%s has %d fields", text, len(strings.Fields(e.Given)))
	case e.Field == "expression":
		return text + " is not valid"
	case strings.Trim(e.Given, "0123456789") == "":
		return e.Field + " " + text + " is out of range"
	}
	return e.Field + " " + text + " is not valid"
}
