// Package cron turns a cron expression and a time zone into due times: Next and Prev.
//
// It is pure: it reads no clock, starts nothing, and imports only the standard library. The zone rules come
// from the *time.Location it is given.
//
// # Expressions
//
//	second  0-59   optional, first of six fields; 0 when left out
//	minute  0-59
//	hour    0-23
//	day     1-31   of the month
//	month   1-12   or JAN-DEC
//	weekday 0-7    or SUN-SAT; 0 and 7 are both Sunday
//
// A field is a list of *, a, a-b, */n, a-b/n or a/n (from a to the maximum). The two day fields also take ?,
// which means *. Weekday ranges may wrap around the week (FRI-MON). When both day fields are restricted a day
// matches if either does. A field that begins with * is not restricted, and then both must match, so
// "0 9 8-14 * */7" is the second Sunday. The macros are @hourly, @daily, @midnight, @weekly, @monthly,
// @yearly, @annually and "@every 90s".
//
// # When the clocks change
//
// The rule is that of vixie cron. A schedule is fixed when its second, minute and hour hold neither * nor /.
// People mean a fixed schedule as "once a day at this time", so it is due at the first instant at which the
// wall clock has reached the time: just after the gap if the clocks skip it, and only on the first pass if
// they repeat it. Any other schedule means "every so often", so it is due at every real instant whose wall
// clock reading matches: on both passes of a repeated hour, and never in a skipped one. "@every" counts
// absolute time and does not look at a wall clock.
package cron
