//go:build unix

package main

import (
	"io/fs"
	"os"
	"syscall"
)

// belongsToAnother is true for a file of a user who is neither this one nor root.
func belongsToAnother(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Uid != 0 && int(st.Uid) != os.Geteuid()
}
