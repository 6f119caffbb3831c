//go:build darwin || freebsd

package files

import "golang.org/x/sys/unix"

func volume(dir string) (VolumeFacts, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return VolumeFacts{}, err
	}
	name := unix.ByteSliceToString(s.Fstypename[:])
	block := uint64(s.Bsize)
	return VolumeFacts{
		System: name, Keeping: keeping(name), Free: atLeastZero(int64(s.Bavail)) * block, Size: s.Blocks * block,
		FreeFiles: atLeastZero(int64(s.Ffree)), MaxFiles: s.Files,
	}, nil
}

// atLeastZero is for counts that go below zero when only root may take the rest.
func atLeastZero(n int64) uint64 { return uint64(max(n, 0)) }
