// Package simulate runs whole clusters in bubbles of testing/synctest: the real loops of nodes and workers,
// over a store and a coordinator in memory. A seed chooses the load and the faults: processes freeze, die,
// stop and join, clocks are set, and calls between processes are delayed, lost or repeated. Time is that of
// the bubble, so minutes pass in a tenth of a second.
//
// One such cluster is a world. The handler of each job, its body, writes its start and its end into a
// journal. When all runs of a world have ended, the check compares the journal with the store and with what
// was submitted. In two worlds of three everything is healed at the end; in the third one everything but one
// node stays broken, and the node must take over within the promised time.
//
// In a plain `go test` a seed does not fix in which order goroutines run. The program simulate/player plays
// worlds in which it does: `make simulate SEED=n` plays the same world again, exactly, and leaves out steps
// of a world that breaks a promise until none is left that can go.
package simulate
