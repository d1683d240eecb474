package outage

import (
	"context"
	"errors"
	"log/slog"
	"strings"
)

// Handler passes on all log lines except those of outages, of which it lets few through: see Outage. A line
// belongs to an outage if its level is WARN or higher and its field "error" is an error that a watched call
// returned, however wrapped.
func Handler(next slog.Handler) slog.Handler { return &handler{next: next} }

// Logger is for parts that reach the same thing without the watched ports: during an outage all their lines
// with an error belong to it.
func (o *Outage) Logger() *slog.Logger { return slog.New(&handler{o.logger.Handler(), o}) }

type handler struct {
	next slog.Handler
	of   *Outage // nil: only marked errors count
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.next.WithAttrs(attrs), h.of}
}

func (h *handler) WithGroup(name string) slog.Handler { return &handler{h.next.WithGroup(name), h.of} }

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	f := h.failure(&r)
	if f == nil {
		return h.next.Handle(ctx, r)
	}
	ok, away, held := f.of.admit(f.turn)
	if !ok {
		return nil
	}
	message, while := r.Message, r.Message
	if away {
		message = f.of.what + " fails: trying again"
	}
	line := slog.NewRecord(r.Time, r.Level, message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		switch {
		case a.Key == "error":
			a.Value = slog.StringValue(once(a.Value.String()))
		// A worker's line has this field, and its message says that the node does not answer.
		case a.Key == "while" && away:
			while = a.Value.String()
			return true
		}
		line.AddAttrs(a)
		return true
	})
	if away {
		line.AddAttrs(slog.String("while", while))
	}
	if held > 0 {
		line.AddAttrs(slog.Int("held_back", held))
	}
	return h.next.Handle(ctx, line)
}

// failure is the failure that a line reports; nil if the line is about something else.
func (h *handler) failure(r *slog.Record) (f *failure) {
	if r.Level < slog.LevelWarn {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "error" {
			return true
		}
		err, _ := a.Value.Any().(error)
		if !errors.As(err, &f) && err != nil && h.of != nil && h.of.away() {
			f = &failure{err, h.of, h.of.turn.Load()}
		}
		return false
	})
	return f
}

// once removes repeated lines from a text: PostgreSQL's driver tries an address with TLS and without, and
// returns the same error for both.
func once(text string) string {
	var lines []string
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !seen[line] {
			seen[line] = true
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}
