// Package demo is a small shop to try Fenceline on: a database schema with
// customers, products, orders and invoices, and reports about them. Names and
// notes are written in many scripts and hold what breaks careless exports:
// quotes, commas, line breaks, leading zeros, long numbers, NULL and empty text.
package demo

import (
	"embed"
	"io/fs"
)

//go:embed shop.sql
var shop string

//go:embed reports/*.sql
var reports embed.FS

// ShopSQL is one statement for PostgreSQL (15 is tested) that makes and fills the
// schema shop, in a second or two. Where it has run before it changes nothing,
// also when several connections run it at once; it fails when there is a schema shop
// that is not the demo's. Every copy holds the same rows.
func ShopSQL() string { return shop }

// Reports are the demo's report files, for a report.Catalog: customers,
// order-lines, orders, sales-by-month and stock.
func Reports() fs.FS {
	sub, err := fs.Sub(reports, "reports")
	if err != nil {
		panic(err) // the embedded folder has this name
	}
	return sub
}
