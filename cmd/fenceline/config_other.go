//go:build !unix

package main

import "io/fs"

// belongsToAnother is false where a file's mode does not say whose it is.
func belongsToAnother(fs.FileInfo) bool { return false }
