// Package api is the HTTP interface of Carillon, as docs/api.md describes it.
//
// It translates and nothing more: a request becomes a call of the ledger (every write), of the store or of the log
// store (reads), and what comes back becomes JSON. Rules are in package carillon.
//
// One table (routes.go) makes the mux, the token check, the check of query parameters and the OpenAPI description, so
// none of them can forget a route. A route is closed unless it says Public; the zero value is the safe one.
//
// A walk through a request: guard.go (request id, recover, headers) -> server.go (find the route) -> auth.go ->
// query.go and decode.go (strict input) -> jobs.go, runs.go, logs.go -> problem.go if it went wrong.
package api
