// Package etcdtest gives tests a real cluster of etcd: three child processes on
// free loopback ports, which end with the test.
//
// The program is the Debian package etcd-server (or etcd of Homebrew). Where it is
// missing the test fails: a check that cannot run has not passed.
package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fenceline/fenceline/jobs/processtest"
)

const (
	members = 3
	// startTimeout and stopTimeout are generous: a loaded machine is slow.
	startTimeout = 60 * time.Second
	stopTimeout  = 5 * time.Second
	pollEvery    = 20 * time.Millisecond
	// portTries is how often a port may be taken between finding and using it.
	portTries = 5
	// heartbeat and election are twice as long as usual, so that a busy machine keeps its leader. The least
	// time of a lease is one and a half elections.
	heartbeat, election = 200 * time.Millisecond, 2 * time.Second
)

// Cluster is three members that elect a leader among them. Its methods are safe
// for concurrent use, but two tests that hurt one cluster disturb each other.
type Cluster struct {
	Members []*Member
	conf    config
}

// Option changes how a cluster is started.
type Option func(testing.TB, *config)

type config struct {
	tls      *processtest.Certificates
	password string
}

// user is who may do everything.
const user = "root"

// Password makes the cluster ask for that of the user root.
func Password(text string) Option { return func(_ testing.TB, c *config) { c.password = text } }

// TLS makes the members speak nothing else to clients, with certificates of an
// authority that is made for this call, and ask for one of its certificates in turn.
func TLS() Option {
	return func(t testing.TB, c *config) { t.Helper(); c.tls = processtest.NewCertificates(t) }
}

// Member is one server of a cluster.
type Member struct {
	port    int
	process *processtest.Process
}

// Addr is where it answers clients, as host:port.
func (m *Member) Addr() string { return "127.0.0.1:" + strconv.Itoa(m.port) }

// Kill ends it with SIGKILL.
func (m *Member) Kill() { m.process.Kill() }

// Pause freezes it: connections stay open and nobody answers.
func (m *Member) Pause(t testing.TB) {
	t.Helper()
	if err := m.process.Freeze(); err != nil {
		t.Fatal(err)
	}
}

// Resume lets a frozen member go on.
func (m *Member) Resume(t testing.TB) {
	t.Helper()
	if err := m.process.Thaw(); err != nil {
		t.Fatal(err)
	}
}

// Start starts a cluster for this test alone.
func Start(t testing.TB, options ...Option) *Cluster {
	t.Helper()
	var conf config
	for _, o := range options {
		o(t, &conf)
	}
	bin, err := exec.LookPath("etcd")
	if err != nil {
		t.Fatalf("etcd is missing: install it (Debian: apt-get install etcd-server; macOS: brew install etcd): %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for try := 1; ; try++ {
		c, err := launch(ctx, bin, t.TempDir(), conf)
		if errors.Is(err, errPortTaken) && try < portTries {
			continue
		}
		if err != nil {
			t.Fatalf("start etcd: %v", err)
		}
		t.Cleanup(c.stop)
		c.setPassword(t)
		return c
	}
}

var errPortTaken = errors.New("a port is taken")

// launch starts the members and returns when each of them answers for the cluster.
func launch(ctx context.Context, bin, dir string, conf config) (c *Cluster, err error) {
	ports, err := processtest.FreePorts(2 * members)
	if err != nil {
		return nil, err
	}
	c = &Cluster{conf: conf}
	clients, secure := "http://", []string(nil)
	if conf.tls != nil {
		clients, secure = "https://", []string{"--cert-file", conf.tls.Cert, "--key-file", conf.tls.Key, "--trusted-ca-file", conf.tls.CA, "--client-cert-auth"}
	}
	defer func() {
		if err != nil {
			err = c.because(err)
		}
	}()
	var peers []string
	for i, port := range ports[members:] {
		peers = append(peers, fmt.Sprintf("m%d=http://127.0.0.1:%d", i, port))
	}
	for i, peer := range peers {
		name, peerURL, _ := strings.Cut(peer, "=")
		m := &Member{port: ports[i]}
		m.process, err = processtest.Spawn(bin, append(secure, "--name", name, "--data-dir", filepath.Join(dir, name),
			"--listen-client-urls", clients+m.Addr(), "--advertise-client-urls", clients+m.Addr(),
			"--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL,
			"--initial-cluster", strings.Join(peers, ","), "--initial-cluster-token", dir,
			"--heartbeat-interval", ms(heartbeat), "--election-timeout", ms(election), "--logger", "zap", "--log-level", "error")...)
		if err != nil {
			return c, err
		}
		c.Members = append(c.Members, m)
	}
	for _, m := range c.Members {
		if err := c.ready(ctx, m); err != nil {
			return c, err
		}
	}
	return c, nil
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// because ends a cluster that did not start and adds what its members said.
func (c *Cluster) because(err error) error {
	for _, m := range c.Members {
		m.process.Kill()
		if said := m.process.Output(); strings.Contains(said, "address already in use") {
			return errPortTaken
		} else if said != "" {
			err = fmt.Errorf("%w; it said:\n%s", err, said)
		}
	}
	return err
}

// ready waits until the member reads for the whole cluster, and is our own process.
func (c *Cluster) ready(ctx context.Context, m *Member) error {
	client, err := c.connect("", m)
	if err != nil {
		return err
	}
	defer client.Close()
	look := time.NewTicker(pollEvery)
	defer look.Stop()
	for {
		try, cancel := context.WithTimeout(ctx, time.Second)
		_, err := client.Get(try, "x")
		cancel()
		switch {
		case m.process.Ended():
			return errors.New("a member ended")
		case err == nil:
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("a member did not answer in time: %w", errors.Join(context.Cause(ctx), err))
		}
	}
}

func (c *Cluster) connect(password string, list ...*Member) (*clientv3.Client, error) {
	conf := clientv3.Config{Logger: zap.NewNop(), DialTimeout: startTimeout}
	if password != "" {
		conf.Username, conf.Password = user, password
	}
	if c.conf.tls != nil {
		conf.TLS = c.conf.tls.Client()
	}
	for _, m := range list {
		conf.Endpoints = append(conf.Endpoints, m.Addr())
	}
	return clientv3.New(conf)
}

// setPassword makes the cluster ask for its password from now on.
func (c *Cluster) setPassword(t testing.TB) {
	t.Helper()
	password := c.conf.password
	if password == "" {
		return
	}
	c.conf.password = "" // nobody asks for it yet
	c.Ask(t, func(ctx context.Context, client *clientv3.Client) error {
		if _, err := client.UserAdd(ctx, user, password); err != nil {
			return err
		}
		if _, err := client.UserGrantRole(ctx, user, user); err != nil {
			return err
		}
		_, err := client.AuthEnable(ctx)
		return err
	})
	c.conf.password = password
}

func (c *Cluster) stop() {
	for _, m := range c.Members {
		m.process.Terminate(stopTimeout)
	}
}

// URL is the address as LEASE_URL takes it.
func (c *Cluster) URL() string {
	addrs := make([]string, len(c.Members))
	for i, m := range c.Members {
		addrs[i] = m.Addr()
	}
	scheme, query, who := "etcd://", "", ""
	if c.conf.tls != nil {
		scheme, query = "etcds://", "/?"+url.Values{"ca": {c.conf.tls.CA}, "cert": {c.conf.tls.Cert}, "key": {c.conf.tls.Key}}.Encode()
	}
	if c.conf.password != "" {
		who = user + ":" + url.PathEscape(c.conf.password) + "@"
	}
	return scheme + who + strings.Join(addrs, ",") + query
}

// Ask calls a function with a client of all members, which ends with the call.
func (c *Cluster) Ask(t testing.TB, call func(context.Context, *clientv3.Client) error) {
	t.Helper()
	client, err := c.connect(c.conf.password, c.Members...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := call(ctx, client); err != nil {
		t.Fatal(err)
	}
}

// Leader is the member that the others follow.
func (c *Cluster) Leader(t testing.TB) (leader *Member) {
	t.Helper()
	c.Ask(t, func(ctx context.Context, client *clientv3.Client) error {
		for _, m := range c.Members {
			status, err := client.Status(ctx, m.Addr())
			if err != nil {
				return err
			}
			if status.Leader == status.Header.MemberId {
				leader = m
				return nil
			}
		}
		return errors.New("nobody leads the cluster")
	})
	return leader
}

// Kill ends every member with SIGKILL.
func (c *Cluster) Kill() {
	for _, m := range c.Members {
		m.Kill()
	}
}

// Pause freezes every member.
func (c *Cluster) Pause(t testing.TB) {
	t.Helper()
	for _, m := range c.Members {
		m.Pause(t)
	}
}

// Resume lets all members go on.
func (c *Cluster) Resume(t testing.TB) {
	t.Helper()
	for _, m := range c.Members {
		m.Resume(t)
	}
}
