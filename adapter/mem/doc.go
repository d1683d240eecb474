// Package mem implements every port in memory. A single process uses it beside its store, tests run on it,
// and it is the model that other adapters are compared with.
package mem
