// Package openapi describes the API: what can be asked, with what, and what is
// answered, problems included.
//
// The description is written once, in the YAML files beside this one, an area of
// the API in each, and embedded. It is short: what holds for every operation (who
// has to sign in, how many requests there may be, what a list's page looks like) is
// said in shared.yaml or follows from the rest, and is filled in here. [Load] reads
// it for the page of people; [API.Document] is the same as OpenAPI 3.1 for programs.
// Tests of package web hold it against the running server, both ways.
package openapi
