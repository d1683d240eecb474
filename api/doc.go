// Package api is the HTTP interface of Carillon, as docs/api.md describes it.
//
// It only translates: a request becomes a call to the ledger (every write), to the store or to the log store
// (reads), and the result becomes JSON. Rules are in package carillon.
//
// One table (routes.go) defines the mux, the token check, the check of query parameters and the OpenAPI
// description, so none of them can miss a route. A route needs a token unless it says Public, so the zero
// value is the safe one.
//
// The way of a request: middleware.go (request id, recover, headers) -> server.go (find the route) ->
// auth.go -> query.go and package jobjson (strict input) -> jobs.go, runs.go, logs.go -> problem.go if it
// went wrong.
package api
