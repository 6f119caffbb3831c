package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// lan is the network of one test: each host is a network namespace, joined to the
// servers by two cables (pairs of virtual interfaces), one to PostgreSQL and one to
// Redis, so that each can be cut by itself. What is sent over a cut cable is lost
// without a word, as with a cable. Interfaces end with the namespace of their host.
type lan struct {
	*site
	net   [2]byte // of the addresses: 198.18.0.0/15 is for tests of networks (RFC 2544)
	cable byte    // that was laid last
	urls  map[string]string
}

func newLAN(t *testing.T) *lan {
	t.Helper()
	l := &lan{site: newSite(t, redistest.Server(t)), urls: map[string]string{}}
	_, _ = rand.Read(l.net[:])
	l.net[0] = 18 + l.net[0]%2
	for _, name := range []string{"DATABASE_URL", "REDIS_URL"} {
		l.urls[name] = l.env[name]
	}
	return l
}

// cable leads from a host to one server.
type cable struct {
	t     *testing.T
	inner string // the interface on the side of the servers
}

func (c cable) set(state string) {
	c.t.Helper()
	ip(c.t, "link", "set", c.inner, state)
}

func (c cable) cut()    { c.t.Helper(); c.set("down") }
func (c cable) repair() { c.t.Helper(); c.set("up") }

// ip runs the command of iproute2; it must succeed.
func ip(t *testing.T, args ...string) {
	t.Helper()
	bin, err := exec.LookPath("ip")
	if err != nil {
		bin = "/usr/sbin/ip"
	}
	out, err := exec.Command(bin, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v %s\n(hosts of a test are network namespaces: that needs iproute2 and the right to administer the network, "+
			"as root or with CAP_NET_ADMIN and CAP_SYS_ADMIN)", strings.Join(args, " "), err, out)
	}
}

// host starts a worker on a host of its own and answers its cables.
func (l *lan) host() (p *process, postgres, redis cable) {
	l.t.Helper()
	script := `read -r go; set -e; PATH=$PATH:/usr/sbin:/sbin; ip link set lo up; `
	env := map[string]string{}
	type laid struct{ outer string }
	var ends []laid
	for i, name := range []string{"DATABASE_URL", "REDIS_URL"} {
		l.cable++
		inner, outer := fmt.Sprintf("fl%02x%02x%d", l.net[0], l.net[1], l.cable), fmt.Sprintf("fx%02x%02x%d", l.net[0], l.net[1], l.cable)
		ip(l.t, "link", "add", inner, "type", "veth", "peer", "name", outer)
		l.t.Cleanup(func() { _ = exec.Command("ip", "link", "del", inner).Run() }) // it may have ended with its host
		server, client := fmt.Sprintf("198.%d.%d.%d", l.net[0], l.net[1], 4*l.cable+1), fmt.Sprintf("198.%d.%d.%d", l.net[0], l.net[1], 4*l.cable+2)
		ip(l.t, "addr", "add", server+"/30", "dev", inner)
		ip(l.t, "link", "set", inner, "up")
		env[name] = l.socket(server, l.urls[name])
		script += fmt.Sprintf("ip addr add %s/30 dev %s; ip link set %s up; ", client, outer, outer)
		ends = append(ends, laid{outer})
		if i == 0 {
			postgres = cable{l.t, inner}
		} else {
			redis = cable{l.t, inner}
		}
	}
	p = l.inNamespace(script+`exec "$0" work`, env, func(pid int) {
		for _, e := range ends {
			ip(l.t, "link", "set", e.outer, "netns", fmt.Sprint(pid))
		}
	})
	return p, postgres, redis
}

// inNamespace starts the program in a network of its own, as soon as prepare has
// connected that.
func (l *lan) inNamespace(script string, env map[string]string, prepare func(pid int)) *process {
	l.t.Helper()
	path, err := binary()
	l.must(err)
	gate, opener, err := os.Pipe()
	l.must(err)
	defer opener.Close()
	old := map[string]string{}
	for name, value := range env {
		old[name], l.env[name] = l.env[name], value
	}
	defer func() {
		for name, value := range old {
			l.env[name] = value
		}
	}()
	p := l.startChanged(func(c *exec.Cmd) {
		c.Stdin = gate
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNET}
	}, "/bin/sh", "-c", script, path)
	_ = gate.Close()
	prepare(p.Process.Pid)
	_, err = opener.WriteString("go\n")
	l.must(err)
	return p
}

// socket is a server's address as a host reaches it: what comes in there is passed on
// to the server, and when the cable is cut the server's end stays open, as it would.
func (l *lan) socket(addr, address string) string {
	l.t.Helper()
	u, err := url.Parse(address)
	l.must(err)
	door, err := net.Listen("tcp", addr+":0")
	l.must(err)
	l.t.Cleanup(func() { _ = door.Close() })
	server := u.Host
	go func() {
		for {
			client, err := door.Accept()
			if err != nil {
				return
			}
			go pass(client, server)
		}
	}()
	u.Host = door.Addr().String()
	return u.String()
}

func pass(client net.Conn, addr string) {
	defer client.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
	_, _ = io.Copy(client, server)
}

// twoHosts is a job that worker A on a host of its own has in hand, and worker B on another.
func (l *lan) twoHosts() (job storage.Job, a *process, postgres, redis cable) {
	l.t.Helper()
	l.report("slow", slowReport)
	l.report("quick", "SELECT 1 AS one\n")
	a, postgres, redis = l.host()
	a.says("worker started")
	job = asJSON[jobAnswer](l.site, "dispatch", "report", "slow").Job
	until(l.t, "A has written its first bytes", func() bool { return len(l.find(".partial")) == 1 })
	b, _, _ := l.host()
	b.says("worker started")
	return job, a, postgres, redis
}

func (l *lan) attempt(job storage.Job, number int) (storage.Attempt, bool) {
	l.t.Helper()
	for _, at := range asJSON[jobAnswer](l.site, "job", "show", job.ID.String()).Attempts {
		if at.Number == number {
			return at, true
		}
	}
	return storage.Attempt{}, false
}

// works shows that a worker still does: it is the only one that gets a job of its own.
func (l *lan) works(p *process) {
	l.t.Helper()
	before := strings.Count(p.output.String(), "msg=published")
	until(l.t, "the worker publishes again", func() bool {
		l.ok("dispatch", "report", "quick", "--wait", "--json")
		return strings.Count(p.output.String(), "msg=published") > before
	})
}

// The cable of worker A is cut in the middle of its work; the lease ends and B
// publishes; the cable is repaired. A's attempt is refused, the pointer stays B's,
// and A goes on working.
func TestAHostIsCutOff(t *testing.T) {
	t.Parallel()
	l := newLAN(t)
	job, a, postgres, redis := l.twoHosts()
	postgres.cut()
	redis.cut()
	until(t, "B has published", func() bool { return l.job(job.ID).State == storage.JobDone })
	e := asJSON[exportAnswer](l.site, "export", "show", job.ExportID.String())
	sum := l.hashOfCurrent(e)
	second, _ := l.attempt(job, 2)
	if *e.Export.AttemptID != second.ID || second.State != storage.AttemptPublished {
		t.Errorf("the pointer is not that of B's attempt: %+v", second)
	}
	if first, _ := l.attempt(job, 1); first.Worker == second.Worker {
		t.Errorf("both attempts are of %s", first.Worker)
	}
	postgres.repair()
	redis.repair()
	l.works(a)
	until(t, "A's attempt has its verdict", func() bool {
		first, _ := l.attempt(job, 1)
		return first.State == storage.AttemptFenced || first.State == storage.AttemptFailed || first.State == storage.AttemptCondemned
	})
	after := asJSON[exportAnswer](l.site, "export", "show", job.ExportID.String())
	if *after.Export.AttemptID != second.ID || after.Export.LastToken != second.Token || l.hashOfCurrent(after) != sum {
		t.Error("the pointer moved, or the bytes behind it changed")
	}
	if got := l.job(job.ID); got.State != storage.JobDone || got.Crashes != 1 || got.Failures != 0 {
		t.Errorf("the job: %+v", got)
	}
	l.ok("verify")
}

// Only the cable between A and Redis is cut: A loses its lease and stops, and says so
// in PostgreSQL; the job is done once by whoever gets it.
func TestAHostIsCutOffFromRedis(t *testing.T) {
	t.Parallel()
	l := newLAN(t)
	job, a, _, redis := l.twoHosts()
	redis.cut()
	until(t, "the job is done", func() bool { return l.job(job.ID).State == storage.JobDone })
	first, _ := l.attempt(job, 1)
	switch first.State {
	case storage.AttemptPublished: // it was quick enough
	case storage.AttemptFailed, storage.AttemptFenced:
		if second, ok := l.attempt(job, 2); !ok || second.State != storage.AttemptPublished || second.Worker == first.Worker {
			t.Errorf("the second attempt: %+v", second)
		}
	default:
		t.Errorf("A's attempt is %s", first.State)
	}
	redis.repair()
	l.works(a)
	l.ok("verify")
}
