package files

import (
	"os"

	"golang.org/x/sys/unix"
)

// startWriteback asks the kernel to begin writing a part of a file to the disk
// and does not wait (sync_file_range(2)), so that the fsync at the end has little
// left to do. It promises nothing; what it cannot do, the fsync does.
func startWriteback(f *os.File, from, size int64) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SyncFileRange(int(fd), from, size, unix.SYNC_FILE_RANGE_WRITE)
	})
}
