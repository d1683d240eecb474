// Package postgres keeps Carillon's truth in a PostgreSQL database, in tables of the schema carillon, for any number of
// nodes at once.
//
// A commit of many changes is one batch, or a few where changes name the same row or carry much: rows of one kind are
// gathered into arrays, each kind is one statement, and all statements are one implicit transaction and, once they are
// prepared, one round trip. A statement that does not find every row as the changes were decided on fails the batch; then
// the rows are read, and it is done again without the changes that lost.
//
// No statement needs statistics or a server's setting: what a plan must not do is switched off, and the isolation is set, for
// the session. PgBouncer in transaction mode has none to offer; that it is in between is noticed, and then each transaction
// begins with the settings, and nothing is prepared. Only to listen for events needs the server itself, see BusConfig.
package postgres
