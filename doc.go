// Package carillon is the vocabulary of Carillon: its types, its rules and its ports.
//
// The types travel between all parts: a Job says what to do and when, a Run is one run of it. The rules are
// pure functions that take the present time as an argument. The ports are the interfaces that the other
// packages are built on; each has an adapter per outside system under adapter/, and a suite in porttest that
// every adapter passes.
//
// This package imports the standard library, package cron and internal/suggest, nothing else.
package carillon
