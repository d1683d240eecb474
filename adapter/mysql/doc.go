// Package mysql keeps Carillon's truth in a database of MySQL or MariaDB that many nodes share.
//
// A commit of many changes is one transaction, and as a rule one packet: rows of a kind are written by one statement, and
// a statement that missed a row fails, so that the server itself stops before the COMMIT at the end of the packet. Then
// the rows are locked and read, the changes that lost are left out, and the others are written again.
package mysql
