// Package postgres keeps Carillon's truth in a PostgreSQL database, in tables of the schema carillon, for any number of
// nodes at once.
//
// A commit of many changes is one batch: rows of one kind are gathered into arrays, each kind is one statement, and all
// statements are one implicit transaction and one round trip. A statement that does not find every row as the changes
// were decided on fails the batch; then the rows are read, and it is done again without the changes that lost.
//
// No statement needs statistics, a session, or a server's setting: what a plan must not do is switched off for the
// transaction. So it works as well through PgBouncer in transaction mode, where statements are not prepared; that there
// is such a thing in between is noticed.
package postgres
