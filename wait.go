package carillon

import "time"

// Wait is a node of a workflow that waits, for a time or for a signal. No worker holds its run.
type Wait struct {
	// For is how long the node waits, from the moment on at which it could begin.
	For Duration `json:"for,omitzero"`
	// Signal is the name of a signal that a caller sends to the run of the workflow, such as an approval. Its
	// payload is the result of the node.
	Signal string `json:"signal,omitempty"`
	// Timeout is how long the node waits for its signal; then it fails. Default none.
	Timeout Duration `json:"timeout,omitzero"`
}

func (w *Wait) admit() *FieldError {
	const longest = Duration(365 * 24 * time.Hour)
	switch {
	case w.For == 0 && w.Signal == "":
		return invalid("", "", `either "for" (a time) or "signal" (the name of a signal)`).
			because("neither for nor signal is given")
	case w.For != 0 && w.Signal != "":
		return invalid("", "", `either "for" (a time) or "signal" (the name of a signal)`).
			because("both for and signal are given")
	case w.For < 0 || w.For > longest || w.For%Duration(time.Millisecond) != 0:
		return invalid("for", w.For, "1ms to 365d, in whole milliseconds")
	case w.Signal != "" && !word(w.Signal, 64):
		return invalid("signal", w.Signal, NameForm)
	case w.Timeout < 0 || w.Timeout > longest || w.Timeout%Duration(time.Millisecond) != 0:
		return invalid("timeout", w.Timeout, "1ms to 365d, in whole milliseconds")
	case w.Timeout != 0 && w.Signal == "":
		return invalid("timeout", w.Timeout, "it only with signal").because("no signal is given")
	}
	return nil
}
