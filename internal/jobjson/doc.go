// Package jobjson reads the JSON that people and applications write: definitions of jobs, and the small
// messages of the API. The API uses it for request bodies, and the scheduler for jobs that applications leave
// in the database, so the same rules and the same errors hold wherever a job comes from.
//
// The decoder is strict. A typing error must not become a job that silently does something else, so the
// decoder refuses everything about which it would have to guess, and says where the fault is. Rules about the
// values themselves are in package carillon (Definition.Admit).
//
// A payload can have 256 KiB, so it matters how often a submit over HTTP reads it. The decoder scans it as
// JSON: syntax, text, names, levels. The answer to the submit scans it a second time, because encoding/json
// writes each RawMessage in its compact form. Nothing else does: Define does not show the payload to Admit,
// which would check its syntax again, and the ledger and the stores pass it on as bytes. It is copied three
// times: from the connection, out of the body (a job that is remembered must not keep the body), and into the
// store.
package jobjson
