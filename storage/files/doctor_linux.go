package files

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// systems are the numbers of statfs(2) that mean something here, and the common
// ones of disks.
var systems = [...]struct {
	magic uint32
	name  string
}{
	{unix.NFS_SUPER_MAGIC, "nfs"}, {0xff534d42, "cifs"}, {unix.SMB_SUPER_MAGIC, "smb"}, {0xfe534d42, "smb2"}, {unix.FUSE_SUPER_MAGIC, "fuse"},
	{unix.V9FS_MAGIC, "9p"}, {unix.CEPH_SUPER_MAGIC, "ceph"}, {unix.AFS_SUPER_MAGIC, "afs"}, {unix.AFS_FS_MAGIC, "afs"}, {unix.CODA_SUPER_MAGIC, "coda"},
	{unix.NCP_SUPER_MAGIC, "ncp"}, {unix.OCFS2_SUPER_MAGIC, "ocfs2"}, {0x01161970, "gfs2"}, {0x0bd00bd0, "lustre"}, {0x47504653, "gpfs"},
	{0x786f4256, "vboxsf"}, {unix.TMPFS_MAGIC, "tmpfs"}, {unix.RAMFS_MAGIC, "ramfs"}, {unix.OVERLAYFS_SUPER_MAGIC, "overlay"}, {0x61756673, "aufs"},
	{unix.EXT4_SUPER_MAGIC, "ext4"}, {unix.XFS_SUPER_MAGIC, "xfs"}, {unix.BTRFS_SUPER_MAGIC, "btrfs"}, {unix.F2FS_SUPER_MAGIC, "f2fs"},
	{0x2fc12fc1, "zfs"}, {unix.MSDOS_SUPER_MAGIC, "vfat"}, {0x2011bab0, "exfat"}, {0xca451a4e, "bcachefs"},
}

func systemName(magic uint32) string {
	for _, s := range systems {
		if s.magic == magic {
			return s.name
		}
	}
	return "file system 0x" + strconv.FormatUint(uint64(magic), 16)
}

func volume(dir string) (VolumeFacts, error) {
	var s unix.Statfs_t
	if err := retried(func() error { return unix.Statfs(dir, &s) }); err != nil {
		return VolumeFacts{}, err
	}
	block := uint64(s.Frsize)
	if block == 0 {
		block = uint64(s.Bsize)
	}
	name := systemName(uint32(s.Type)) // a signed word on some machines, and only 32 bits mean anything
	return VolumeFacts{
		System: name, Keeping: keeping(name), Free: s.Bavail * block, Size: s.Blocks * block, FreeFiles: s.Ffree, MaxFiles: s.Files,
	}, nil
}

// retried repeats a call that a signal interrupted.
func retried(call func() error) error {
	for {
		if err := call(); err != unix.EINTR { //nolint:errorlint // a system call answers the number itself
			return err
		}
	}
}
