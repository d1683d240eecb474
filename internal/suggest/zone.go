package suggest

import (
	"slices"
	"strings"
	"time"
	"unicode"
)

// Zone is the time zone that a name probably means, if its letters are in the wrong case or it has
// spaces; "" if there is none.
func Zone(name string) string {
	if len(name) > 40 {
		return "" // no zone has such a name
	}
	written := strings.ReplaceAll(strings.TrimSpace(name), " ", "_")
	for _, like := range []string{titleZone(written), strings.ToUpper(written)} {
		if like == name || strings.EqualFold(like, "Local") { // a different zone on every machine
			continue
		}
		if _, err := time.LoadLocation(like); err == nil {
			return like
		}
	}
	return ""
}

// titleZone writes a name in the case that zones use: america/port-au-prince is America/Port-au-Prince.
func titleZone(name string) string {
	var b strings.Builder
	words := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	for name != "" {
		end := strings.IndexFunc(name, words)
		if end < 0 {
			end = len(name)
		}
		word := strings.ToLower(name[:end])
		if end > 0 && !slices.Contains([]string{"of", "au", "es"}, word) {
			word = strings.ToUpper(word[:1]) + word[1:]
		}
		b.WriteString(word)
		if end < len(name) {
			b.WriteByte(name[end])
			end++
		}
		name = name[end:]
	}
	return b.String()
}
