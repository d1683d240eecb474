// Package simulate runs whole clusters in bubbles of testing/synctest: the real loops of nodes and workers,
// over a store and a coordinator in memory. A seed chooses the load and the faults: processes freeze, die,
// stop and join, and calls between them are delayed, lost or repeated. Time is that of the bubble, so minutes
// pass in a tenth of a second.
//
// One such cluster is a world. The handler of each job, its body, writes its start and its end into a
// journal. When all runs of a world have ended, the check compares the journal with the store and with what
// was submitted. A seed does not fix in which order goroutines run, so `make simulate SEED=n` plays it twenty
// times.
package simulate
