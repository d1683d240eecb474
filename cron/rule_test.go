package cron_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// rule is a random expression together with what it means. The meaning is drawn with the text and never read
// back from it, so that a mistake in reading expressions cannot hide.
type rule struct {
	text          string
	allowed       [6]values // second, minute, hour, day, month, weekday
	fixed, either bool
}

type values [60]bool

// drawRule makes up an expression that is likely to be due around the given wall time.
func drawRule(rng *rand.Rand, near time.Time, seconds bool) *rule {
	r := &rule{}
	r.allowed[0][0] = true
	texts := []string{"0"}
	if seconds && rng.IntN(3) > 0 {
		texts[0], r.allowed[0] = drawField(rng, 0, 59, near.Second())
	}
	draw := func(i, lo, hi, near int) {
		var text string
		text, r.allowed[i] = drawField(rng, lo, hi, near)
		texts = append(texts, text)
	}
	draw(1, 0, 59, near.Minute())
	draw(2, 0, 23, near.Hour())
	drawDate := func(i, lo, hi, near int) {
		if rng.IntN(4) == 0 {
			draw(i, lo, hi, near)
			return
		}
		texts = append(texts, "*")
		r.allowed[i].add(lo, hi, 1)
	}
	drawDate(3, 1, 31, near.Day())
	drawDate(4, 1, 12, int(near.Month()))
	drawDate(5, 0, 6, int(near.Weekday()))

	r.fixed = !strings.ContainsAny(strings.Join(texts[:3], ""), "*/")
	r.either = !strings.HasPrefix(texts[3], "*") && !strings.HasPrefix(texts[5], "*")
	if texts[0] == "0" && rng.IntN(2) == 0 {
		texts = texts[1:]
	}
	r.text = strings.Join(texts, " ")
	if !r.possible() {
		return drawRule(rng, near, seconds)
	}
	return r
}

// possible tries all dates of a leap year, each as if it could fall on any weekday.
func (r *rule) possible() bool {
	for date := time.Date(
		2000, 1, 1, 0, 0, 0, 0, time.UTC,
	); date.Year() == 2000; date = date.AddDate(0, 0, 1) {
		if r.allowed[4][date.Month()] && (r.either || r.allowed[3][date.Day()]) {
			return true
		}
	}
	return false
}

// drawField makes up one field, of one or more items.
func drawField(rng *rand.Rand, lo, hi, near int) (string, values) {
	var v values
	var items []string
	for more := true; more; more = rng.IntN(4) == 0 {
		items = append(items, v.drawItem(rng, lo, hi, near))
	}
	return strings.Join(items, ","), v
}

func (v *values) drawItem(rng *rand.Rand, lo, hi, near int) string {
	a := near
	if rng.IntN(4) == 0 {
		a = lo + rng.IntN(hi-lo+1)
	}
	b := a + rng.IntN(hi-a+1)
	switch kind := rng.IntN(12); kind {
	case 0:
		v.add(lo, hi, 1)
		return "*"
	case 1, 2:
		n := 1 + rng.IntN(hi-lo+1)
		v.add(lo, hi, n)
		return fmt.Sprintf("*/%d", n)
	case 3:
		n := 1 + rng.IntN(b-a+1)
		v.add(a, b, n)
		return fmt.Sprintf("%d-%d/%d", a, b, n)
	case 4, 5:
		v.add(a, b, 1)
		return fmt.Sprintf("%d-%d", a, b)
	default:
		v.add(a, a, 1)
		return fmt.Sprintf("%02d", a)
	}
}

func (v *values) add(lo, hi, step int) {
	for n := lo; n <= hi; n += step {
		v[n] = true
	}
}

// matches reports whether the date and clock of a wall time are allowed.
func (r *rule) matches(wall time.Time) bool {
	h, m, s := wall.Clock()
	if !r.allowed[0][s] || !r.allowed[1][m] || !r.allowed[2][h] {
		return false
	}
	_, month, date := wall.Date()
	day, weekday := r.allowed[3][date], r.allowed[5][wall.Weekday()]
	if r.either {
		return r.allowed[4][month] && (day || weekday)
	}
	return r.allowed[4][month] && day && weekday
}
