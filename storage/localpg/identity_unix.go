//go:build unix

package localpg

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// candidates are the users to try, best first. Who is not root is himself; who
// has no name either (a container with a bare uid) is nobody in a namespace, for
// initdb wants a name.
func candidates(dir string) []identity {
	self := identity{name: "user " + strconv.Itoa(os.Getuid()), uid: os.Getuid(), gid: os.Getgid()}
	if self.uid != 0 {
		if _, err := user.LookupId(strconv.Itoa(self.uid)); err == nil {
			return []identity{self}
		}
		return append(namespaces(), self)
	}
	if uid, gid := owner(dir); uid != 0 {
		return []identity{{name: "the folder's owner, user " + strconv.Itoa(uid), uid: uid, gid: gid, other: true}}
	}
	return append(namespaces(), lesserUsers()...)
}

// lesserUsers are the users that root may become.
func lesserUsers() []identity {
	var users []identity
	for _, name := range []string{"postgres", "_postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			users = append(users, identity{name: "user " + name, uid: int(uid), gid: int(gid), other: true})
		}
	}
	return users
}

// owner is the user and group of a file; ours when it cannot be read.
func owner(path string) (uid, gid int) {
	info, err := os.Stat(path)
	if err != nil {
		return os.Getuid(), os.Getgid()
	}
	stat := info.Sys().(*syscall.Stat_t)
	return int(stat.Uid), int(stat.Gid)
}

// firstClosed is the first folder on the way to path, path included, that a user
// without root's rights cannot enter, with its mode; empty when there is none.
func firstClosed(path string, uid, gid int) string {
	way := string(filepath.Separator)
	for _, part := range strings.Split(filepath.Clean(path), way) {
		way = filepath.Join(way, part)
		info, err := os.Stat(way)
		if err != nil {
			return ""
		}
		stat := info.Sys().(*syscall.Stat_t)
		enter := os.FileMode(0o001)
		switch {
		case int(stat.Uid) == uid:
			enter = 0o100
		case int(stat.Gid) == gid:
			enter = 0o010
		}
		if info.Mode()&enter == 0 {
			return way + " (" + info.Mode().String() + ", owner " + strconv.Itoa(int(stat.Uid)) + ")"
		}
	}
	return ""
}

// shutdown asks a server to end.
func shutdown(p *os.Process, _ string, m mode) error {
	if m == immediate {
		return p.Signal(syscall.SIGQUIT)
	}
	return p.Signal(syscall.SIGINT)
}

// killAll kills a command of ours with its children: each has a group of its own.
func killAll(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

// syncFolder makes a rename in the folder durable.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
