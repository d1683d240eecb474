// Package postgres stores Carillon's data in a PostgreSQL database, in tables of the schema carillon, for any
// number of nodes at the same time.
//
// A commit of many changes is one batch, or a few batches where changes name the same row or carry much data.
// The store collects the rows of each kind into arrays and writes each kind with one statement. All
// statements of a batch are one implicit transaction and, once they are prepared, one round trip. A statement
// fails the batch if it does not find every row as the changes were decided on. The store then reads the rows
// and writes the batch again without the changes that lost.
//
// No statement depends on statistics or on a setting of the server. For each session the store switches off
// the plans that must not be used, and sets the isolation. PgBouncer in transaction mode offers no session.
// The store notices a PgBouncer in between; each transaction then begins with the settings, and nothing is
// prepared. Only listening for events needs a connection to the server itself, see BusConfig.
package postgres
