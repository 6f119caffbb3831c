// Package zookeepertest gives tests a real ZooKeeper: a child process on a free
// loopback port, which ends with the test.
//
// The program is in the Debian package libzookeeper-java and needs a Java runtime
// (default-jre-headless). Where it is missing the test fails: a check that cannot
// run has not passed.
package zookeepertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs/processtest"
)

const (
	// startTimeout and stopTimeout are generous: a loaded machine is slow, and Java slower.
	startTimeout = 60 * time.Second
	stopTimeout  = 5 * time.Second
	// askTimeout is short: who asks while the server starts may never be answered.
	askTimeout = time.Second
	pollEvery  = 20 * time.Millisecond
	// portTries is how often a port may be taken between finding and using it.
	portTries = 5
	// tick is ZooKeeper's unit of time: a session lives for 2 to 20 of them.
	tick = 500 * time.Millisecond
)

// MinSession and MaxSession are the bounds of a session at these servers.
const (
	MinSession = 2 * tick
	MaxSession = 20 * tick
)

// Server is one server without an ensemble. Its methods are safe for concurrent use,
// but two tests that hurt one server disturb each other.
type Server struct {
	port    int
	process *processtest.Process
}

// Start starts a server for this test alone.
func Start(t testing.TB) *Server {
	t.Helper()
	java, err := exec.LookPath("java")
	if err != nil {
		t.Fatalf("java is missing: install it (Debian: apt-get install default-jre-headless): %v", err)
	}
	classes, err := classPath()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for try := 1; ; try++ {
		s, err := launch(ctx, java, classes, t.TempDir())
		if errors.Is(err, errPortTaken) && try < portTries {
			continue
		}
		if err != nil {
			t.Fatalf("start ZooKeeper: %v", err)
		}
		t.Cleanup(func() { s.process.Terminate(stopTimeout) })
		return s
	}
}

// classPath is where the classes of the server are: in Debian's folder of libraries.
func classPath() (string, error) {
	const libraries = "/usr/share/java"
	var list []string
	for _, name := range []string{"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "metrics-core", "snappy-java",
		"netty-buffer", "netty-codec", "netty-common", "netty-handler", "netty-resolver", "netty-transport"} {
		jar := filepath.Join(libraries, name+".jar")
		if _, err := os.Stat(jar); err != nil {
			return "", fmt.Errorf("ZooKeeper is missing: install it (Debian: apt-get install libzookeeper-java): %w", err)
		}
		list = append(list, jar)
	}
	return strings.Join(list, ":"), nil
}

var errPortTaken = errors.New("the port is taken")

// launch starts the server and returns when it answers.
func launch(ctx context.Context, java, classes, dir string) (*Server, error) {
	ports, err := processtest.FreePorts(1)
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("tickTime=%d\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=srvr\n",
		tick.Milliseconds(), dir, ports[0])
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, err
	}
	s := &Server{port: ports[0]}
	// A small heap, and no time spent on speed that a test does not live to see.
	s.process, err = processtest.Spawn(java, "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dzookeeper.forceSync=no", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-cp", classes, "org.apache.zookeeper.server.quorum.QuorumPeerMain", conf)
	if err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		s.process.Kill()
		said := s.process.Output()
		if strings.Contains(said, "Address already in use") {
			return nil, errPortTaken
		}
		return nil, fmt.Errorf("%w; it said:\n%s", err, said)
	}
	return s, nil
}

// ready waits until the server answers a question about itself.
func (s *Server) ready(ctx context.Context) error {
	look := time.NewTicker(pollEvery)
	defer look.Stop()
	for {
		said, err := s.ask(ctx, "srvr")
		switch {
		case s.process.Ended():
			return errors.New("the server ended")
		case err == nil && strings.Contains(said, "Mode: standalone"):
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("the server did not answer in time: %w", errors.Join(context.Cause(ctx), err))
		}
	}
}

// ask sends a command of four letters.
func (s *Server) ask(ctx context.Context, command string) (string, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(askTimeout)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, command); err != nil {
		return "", err
	}
	said, err := io.ReadAll(conn)
	return string(said), err
}

// Addr is where it answers, as host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL is the address as LEASE_URL takes it.
func (s *Server) URL() string { return "zookeeper://" + s.Addr() }

// Kill ends it with SIGKILL.
func (s *Server) Kill() { s.process.Kill() }

// Pause freezes it: connections stay open and nobody answers.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	if err := s.process.Freeze(); err != nil {
		t.Fatal(err)
	}
}

// Resume lets a frozen server go on.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	if err := s.process.Thaw(); err != nil {
		t.Fatal(err)
	}
}
