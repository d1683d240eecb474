// Package jobjson reads the JSON that people and applications write: definitions of jobs, and the small
// messages of the API. The API uses it for request bodies, and the scheduler for jobs that applications leave
// in the database, so the same rules and the same errors hold wherever a job comes from.
//
// The decoder is strict. A typing error must not become a job that silently does something else, so the
// decoder refuses everything about which it would have to guess, and says where the fault is. Rules about the
// values themselves are in package carillon (Definition.Admit).
package jobjson
