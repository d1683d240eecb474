// Package suggest finds the name that was probably meant.
package suggest

import "strings"

// DidYouMean is a hint if one of the known names is close to the given one.
func DidYouMean(given string, known []string) string {
	if best := Nearest(given, known); best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}

// Nearest is the known name that is close to the given one, "" if none is.
func Nearest(given string, known []string) string {
	best, distance := "", 3
	if len(given) > 40 {
		return "" // no name is that long, and comparing costs the product of both lengths
	}
	for _, name := range known {
		d := editDistance(strings.ToLower(given), strings.ToLower(name))
		if d < distance && d < len(name) && d*2 <= len(name) {
			best, distance = name, d
		}
	}
	return best
}

// editDistance counts insertions, deletions, replacements and swaps of neighbours, which are the usual typing
// mistakes.
func editDistance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			differ := 1
			if a[i-1] == b[j-1] {
				differ = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+differ)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
