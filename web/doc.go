// Package web is what people see and programs call: the pages, the HTTP API, the
// downloads and the live events. It is the only door to net/http servers.
//
// Every route stands in one table (server.go) with who may use it. A request
// comes in through one chain (serve.go: id, log, headers, cross-origin check),
// gets a principal (access.go), and every row that it reads is read through that
// principal's [storage.Scope]: what may not be seen does not exist (404).
// Attempts and files have no tenant of their own and are read only below an
// export or a job that the scope has seen. Errors become statuses in one place
// (errors.go).
//
// Pages are rendered on the server and work without a script. The script swaps
// what changed when an event says so (events.go), shows times in the viewer's
// zone, and copies. No inline script and no inline style exists, so the
// Content-Security-Policy allows none.
//
// The picture of the fence is computed in fence.go from the attempts' own rows,
// drawn by templates/fence.html, and told in words by story.go.
package web
