// Package sqlite keeps Carillon's truth in one SQLite file: a complete system needs nothing else.
//
// One connection writes, a few others read; SQLite's write-ahead log lets them work at the same time. A
// commit of many changes is one transaction of prepared statements, one row at a time: there is no network,
// so a clever statement could save no round trips. Every commit is on disk when it returns
// (synchronous=FULL).
package sqlite
