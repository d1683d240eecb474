// Package simulate runs whole clusters in bubbles of testing/synctest: the real loops of nodes and workers,
// over a store and a coordinator in memory, with processes and links that fail as a seed says. Time is the
// bubble's: an hour takes as long as the work that is done in it. Witnesses write down when the bodies of
// jobs begin and end; the check judges by what they saw.
//
// A seed repeats the load and the faults. It does not repeat in which order goroutines run that could run at
// the same time, so a failing seed is played several times.
package simulate
