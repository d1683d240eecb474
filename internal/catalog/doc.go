// Package catalog keeps small named records that every node knows: weights of queues and namespaces, limits
// of operators, and what else people set for the whole system while it runs.
//
// A record is a guard in a namespace of its own (Space), under the key catalog/<kind>/<namespace>/<name>. A
// change that writes a record also folds the epoch, one more guard. Each node reads the epoch twice a second,
// and reads all records again when it has changed. So a write is in force on every node within a second, and
// on the node that made it when the write returns. While the store does not answer, each node goes on with
// the records that it knows.
//
// Readers use a Snapshot, which never changes: Catalog.Now costs one atomic load. A loop that has to do
// something when a record changes listens: see Catalog.Listen.
//
// To add a kind:
//
//   - write the type of its values, with JSON tags; fields that a node of an older version does not know are
//     ignored there, and a kind that it does not know is ignored as a whole
//   - add a Table of it to Snapshot
//   - add a Kind to kinds.go, and to the list of kinds there
//   - if the hot path reads it, add an index to Snapshot, and fill it in Snapshot.index
package catalog
