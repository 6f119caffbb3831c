package main

import (
	"context"
	"fmt"

	"github.com/fenceline/fenceline/storage"
)

// askSource looks at the role that reports are read with. Reports run in
// transactions that cannot write; a role that may not write either keeps a report
// from calling a function that reaches out of them, and from reading what it should not.
func askSource(ctx context.Context, d *doctor) (finding, error) {
	if d.conf.SourceURL == "" {
		return fine("SOURCE_DATABASE_URL is not set: reports are read with the role of DATABASE_URL, in read only transactions"), nil
	}
	src, err := storage.OpenSource(d.conf.SourceURL)
	if err != nil {
		return finding{}, err
	}
	table, err := src.Writable(ctx)
	if err != nil {
		return finding{}, err
	}
	if table != "" {
		return warning(fmt.Sprintf("the role of SOURCE_DATABASE_URL may write: %s, for one", table),
			"security: reports run in read only transactions, but a role that can do nothing else is a second lock",
			"REVOKE what it does not need, or make a role that may only SELECT"), nil
	}
	return fine("a role that may only read"), nil
}
