package files

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
)

// owner is unknown: Windows has access lists instead.
func owner(fs.FileInfo) int { return -1 }

func volume(dir string) (VolumeFacts, error) {
	if _, err := os.Stat(dir); err != nil {
		return VolumeFacts{}, err
	}
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return VolumeFacts{}, err
	}
	var v VolumeFacts
	if err := windows.GetDiskFreeSpaceEx(path, &v.Free, &v.Size, nil); err != nil {
		return v, err
	}
	root, err := windows.UTF16PtrFromString(strings.TrimSuffix(filepath.VolumeName(dir), `\`) + `\`)
	if err != nil {
		return v, err
	}
	switch windows.GetDriveType(root) {
	case windows.DRIVE_REMOTE:
		v.System = "remote"
	case windows.DRIVE_RAMDISK:
		v.System = "ramfs"
	default:
		v.System = systemName(root)
	}
	v.Keeping = keeping(v.System)
	return v, nil
}

func systemName(root *uint16) string {
	name := make([]uint16, windows.MAX_PATH+1)
	if err := windows.GetVolumeInformation(root, nil, 0, nil, nil, nil, &name[0], uint32(len(name))); err != nil {
		return "a disk"
	}
	return windows.UTF16ToString(name)
}
