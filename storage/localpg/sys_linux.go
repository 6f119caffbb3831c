package localpg

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// nobody is the user inside a namespace: its number has a name on every system,
// because the kernel shows unknown users as it.
const nobody = 65534

// namespaces are the ways to run in a user namespace, where our own user goes by
// another number and has no rights beyond its own files.
func namespaces() []identity {
	return []identity{{name: "nobody in a user namespace", uid: os.Getuid(), gid: os.Getgid(), confined: true}}
}

func (id identity) attributes(death syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: death}
	if id.confined {
		attr.Cloneflags = syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: id.uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: id.gid, Size: 1}}
		attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	if id.other {
		attr.Credential = &syscall.Credential{Uid: uint32(id.uid), Gid: uint32(id.gid)}
	}
	return attr
}

// serves tells whether the process is a PostgreSQL server on this data folder,
// which is where a server has its working directory; a pid alone proves nothing,
// for it may have been given to somebody else.
func serves(p postmaster, data string) bool {
	proc := filepath.Join("/proc", strconv.Itoa(p.pid))
	name, err := os.ReadFile(filepath.Join(proc, "comm"))
	if err != nil || string(bytes.TrimSpace(name)) != "postgres" {
		return false
	}
	here, err := os.Stat(data)
	if err != nil {
		return false
	}
	if there, err := os.Stat(filepath.Join(proc, "cwd")); err == nil {
		return os.SameFile(here, there)
	}
	// Another user's process hides its directory but not its arguments.
	args, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	return err == nil && bytes.Contains(args, []byte("-D\x00"+data+"\x00"))
}
