//go:build unix && !linux

package localpg

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

func namespaces() []identity { return nil }

// attributes has no death signal to give: here a server outlives a kill -9 of its
// owner until the next start.
func (id identity) attributes(syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if id.other {
		attr.Credential = &syscall.Credential{Uid: uint32(id.uid), Gid: uint32(id.gid)}
	}
	return attr
}

// serves tells whether the process is a PostgreSQL server that was started by us
// on this data folder; a pid alone proves nothing, for it may have been given to
// somebody else.
func serves(p postmaster, data string) bool {
	out, err := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(p.pid)).Output()
	return err == nil && strings.Contains(string(out), "postgres -D "+data+" ")
}
