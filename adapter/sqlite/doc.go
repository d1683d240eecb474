// Package sqlite keeps Carillon's truth in one SQLite file: a complete system needs nothing else.
//
// One connection writes, a few others read; SQLite's write-ahead log lets them go on side by side. A commit of many
// changes is one transaction of prepared statements, a row at a time: there is no network whose round trips a clever
// statement could save. Every commit is on disk when it returns (synchronous=FULL).
package sqlite
