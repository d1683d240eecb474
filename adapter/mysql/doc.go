// Package mysql keeps Carillon's truth in a database of MySQL or MariaDB that many nodes share.
//
// A commit of many changes is one transaction, and usually one packet: one statement writes all rows of a
// kind. A statement that misses a row fails, so that the server itself stops before the COMMIT at the end of
// the packet. Then the store locks and reads the rows, leaves out the changes that lost, and writes the
// others again.
package mysql
