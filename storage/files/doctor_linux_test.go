package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// The numbers are those of the kernel's own file systems.
func TestSystemsOfThisKernel(t *testing.T) {
	t.Parallel()
	if v, err := LookAtVolume("/dev/shm"); err != nil || v.System != "tmpfs" || v.Keeping != KeepsInMemory {
		t.Errorf("/dev/shm: %+v, %v", v, err)
	}
	if v, err := LookAtVolume("/proc"); err != nil || v.System != "file system 0x9fa0" || v.Keeping != KeepsLocally {
		t.Errorf("/proc: %+v, %v", v, err)
	}
	for _, s := range systems {
		if systemName(s.magic) != s.name {
			t.Errorf("%x is %s and %s", s.magic, s.name, systemName(s.magic))
		}
	}
}

// A folder that may be read and not written. Root may write everywhere, so this
// thread becomes nobody as far as files are concerned, and is thrown away.
func TestProbeOfAReadOnlyFolder(t *testing.T) {
	t.Parallel()
	dir, id := marked(t)
	for _, open := range []string{filepath.Dir(filepath.Dir(dir)), filepath.Dir(dir), filepath.Join(dir, markerName)} {
		if err := os.Chmod(open, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) }) // or it could not be removed
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if os.Getuid() == 0 {
			if err := unix.Setfsuid(65534); err != nil {
				failed <- err
				return
			}
		}
		_, err := Probe(dir, id)
		failed <- err
	}()
	if err := <-failed; !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v", err)
	}
	if names := tree(t, dir); len(names) != 2 {
		t.Errorf("%q", names)
	}
}
