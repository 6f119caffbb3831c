//go:build unix

package files

import (
	"io/fs"
	"syscall"
)

func owner(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}
