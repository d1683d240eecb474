package carillon

import (
	"slices"
	"strings"
	"unicode"
)

// wantZone says what is wanted in place of a time zone that does not exist, with the zone that was probably
// meant.
func wantZone(given string) string {
	want := "an IANA time zone such as Europe/Berlin or UTC"
	if like := ZoneLike(given); like != "" {
		want += "; did you mean " + like + "?"
	}
	return want
}

// ZoneLike is the time zone that a name probably means, if its letters are in the wrong case or it has
// spaces; "" if there is none.
func ZoneLike(name string) string {
	if len(name) > 40 {
		return "" // no zone has such a name
	}
	written := strings.ReplaceAll(strings.TrimSpace(name), " ", "_")
	for _, like := range []string{titleZone(written), strings.ToUpper(written)} {
		if like != name && like != "LOCAL" {
			if _, err := zone(like); err == nil {
				return like
			}
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
