package localpg

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

func candidates(string) []identity {
	return []identity{{name: "this user", uid: -1, gid: -1}}
}

func (id identity) attributes(syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

func owner(string) (uid, gid int) { return -1, -1 }

func firstClosed(string, int, int) string { return "" }

// shutdown goes through pg_ctl: PostgreSQL's signals are pipes of its own here.
func shutdown(p *os.Process, bin string, m mode) error {
	signal := "INT"
	if m == immediate {
		signal = "QUIT"
	}
	out, err := exec.Command(filepath.Join(bin, "pg_ctl"), "kill", signal, strconv.Itoa(p.Pid)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("pg_ctl kill %s %d: %w: %s", signal, p.Pid, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// killAll leaves the children of initdb to notice that their input has ended.
func killAll(p *os.Process) { _ = p.Kill() }

// syncFolder has nothing to do: NTFS logs its renames.
func syncFolder(string) error { return nil }

// serves tells whether the process is the server of the pid file: a postgres.exe
// that began when the file says so; a pid alone proves nothing, for it may have
// been given to somebody else.
func serves(p postmaster, _ string) bool {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION|windows.SYNCHRONIZE, false, uint32(p.pid))
	if err != nil {
		return false
	}
	defer windows.CloseHandle(h)
	if state, err := windows.WaitForSingleObject(h, 0); err != nil || state == windows.WAIT_OBJECT_0 {
		return false
	}
	name := make([]uint16, windows.MAX_LONG_PATH)
	size := uint32(len(name))
	if err := windows.QueryFullProcessImageName(h, 0, &name[0], &size); err != nil {
		return false
	}
	var created, exited, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(h, &created, &exited, &kernel, &user); err != nil {
		return false
	}
	late := p.started.Sub(time.Unix(0, created.Nanoseconds()))
	return strings.EqualFold(filepath.Base(windows.UTF16ToString(name[:size])), "postgres.exe") && late > -2*time.Second && late < 10*time.Second
}

// tryLock locks a byte far behind the end, so that others can read the pid.
func tryLock(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{OffsetHigh: 1})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return errLocked
	}
	return err
}
