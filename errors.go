package carillon

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The eight ways in which a call can fail for a reason the caller can act on. Everything else is an outage.
var (
	ErrNotFound  = errors.New("not found")
	ErrInvalid   = errors.New("invalid")
	ErrConflict  = errors.New("conflict")           // the thing is in a state that does not allow it
	ErrPermanent = errors.New("will never succeed") // do not retry
	ErrLost      = errors.New("lost")               // the attempt no longer holds its run
	ErrFull      = errors.New("no room left")       // on the disk of a store; later there may be some
	// ErrBusy says that other writers were quicker at each try. Nothing was written.
	ErrBusy = errors.New("others change it too quickly")
	// ErrSessionOver says that the worker's session is over, so that it holds no run any more.
	ErrSessionOver = errors.New("session over")
)

// FieldError is bad input: which field, what was given, what would be right.
type FieldError struct {
	Field string // dotted path as in the JSON body, e.g. "schedule.cron"
	Given string
	Want  string
	Wrong string // what is wrong, as a clause; default: that the given value is not valid, or empty
}

func (e *FieldError) Error() string {
	wrong, given := e.Wrong, e.Given
	if len(given) > 80 {
		given = strings.ToValidUTF8(given[:77], "") + "..."
	}
	switch {
	case wrong != "":
	case given == "":
		wrong = "it is empty"
	default:
		wrong = strconv.Quote(given) + " is not valid"
	}
	return fmt.Sprintf("%s: %s: want %s", e.Field, wrong, e.Want)
}

func (e *FieldError) Is(target error) bool { return target == ErrInvalid }

// In puts the error under a parent field.
func (e *FieldError) In(parent string) *FieldError {
	e.Field = strings.TrimSuffix(parent+"."+e.Field, ".")
	return e
}

// because says what is wrong in place of "is not valid".
func (e *FieldError) because(wrong string, args ...any) *FieldError {
	e.Wrong = fmt.Sprintf(wrong, args...)
	return e
}

func invalid(field string, given any, want string, args ...any) *FieldError {
	return &FieldError{Field: field, Given: fmt.Sprint(given), Want: fmt.Sprintf(want, args...)}
}
