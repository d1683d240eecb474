package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// number shows about three digits, and all integer digits above a hundred.
func number(v float64) string {
	switch a := math.Abs(v); {
	case v == 0:
		return "0"
	case a >= 99.95:
		return grouped(int64(math.Round(v)))
	case a >= 9.995:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.0995:
		return fmt.Sprintf("%.2f", v)
	default:
		digits := 1 - int(math.Floor(math.Log10(a)))
		return strings.TrimRight(strconv.FormatFloat(v, 'f', digits, 64), "0")
	}
}

// grouped writes 1,234,567.
func grouped(n int64) string {
	if n < 0 {
		return "-" + grouped(-n)
	}
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// brief writes 10k, 1M: for axes and headings.
func brief(n float64) string {
	switch a := math.Abs(n); {
	case a >= 1e6:
		return strconv.FormatFloat(n/1e6, 'g', 4, 64) + "M"
	case a >= 1e3:
		return strconv.FormatFloat(n/1e3, 'g', 4, 64) + "k"
	default:
		return strconv.FormatFloat(n, 'g', 4, 64)
	}
}

// factor writes 4.2x.
func factor(v float64) string {
	switch {
	case v >= 9.95:
		return grouped(int64(math.Round(v))) + "x"
	case v >= 0.995:
		return fmt.Sprintf("%.1fx", v)
	default:
		return fmt.Sprintf("%.2fx", v)
	}
}

// spread is a median with the least and the most of the rounds.
func (c *cell) spread() string {
	if len(c.values) == 1 {
		return number(c.values[0])
	}
	return fmt.Sprintf("%s (%s..%s)", number(c.median()), number(c.least()), number(c.most()))
}

// escape keeps Markdown from reading a peer's own words as markup.
var escape = strings.NewReplacer(
	"|", `\|`, "\n", " ", "\r", " ", "<", "&lt;", ">", "&gt;", "*", `\*`, "`", "'", "_", `\_`, "[", `\[`,
)

func escaped(s string) string { return escape.Replace(strings.TrimSpace(s)) }

// engineName is the usual spelling of an engine.
func engineName(engine string) string {
	switch engine {
	case "postgres":
		return "PostgreSQL"
	case "redis":
		return "Redis"
	case "sqlite":
		return "SQLite"
	default:
		return engine
	}
}

// table is a Markdown table.
type table struct {
	head []string
	rows [][]string
}

func (t table) String() string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(t.head)
	b.WriteString(strings.Repeat("|---", len(t.head)) + "|\n")
	for _, r := range t.rows {
		line(r)
	}
	return b.String()
}
