// Package mem has every port in memory. It is what a single process runs on beside its store, what tests run on, and
// the model that other adapters are compared with.
package mem
