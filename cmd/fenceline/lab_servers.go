package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/localredis"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/localpg"
)

// labServers are the servers that the lab starts for itself, and the scratch
// database where the balances are. It is used by one goroutine at a time.
type labServers struct {
	cli      *cli
	dir      string
	password string          // of every redis-server: an address of several has only one
	postgres *localpg.Server // nil where PostgreSQL is not installed
	scratch  string          // address of the scratch database
	store    *storage.Store
	closers  []func()
}

// openLabServers makes the scratch database: on a private PostgreSQL, or, where
// that is not installed, beside the database of this deployment.
func openLabServers(ctx context.Context, c *cli) (_ *labServers, err error) {
	s := &labServers{cli: c, password: rand.Text()}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "fenceline-lab-"); err != nil {
		return nil, fmt.Errorf("make a folder for the lab's servers: %w", err)
	}
	s.closers = append(s.closers, func() { _ = os.RemoveAll(s.dir) }) // what stays is in the folder for temporary files
	if err := os.Chmod(s.dir, 0o711); err != nil {                    // PostgreSQL may have to run as another user
		return nil, fmt.Errorf("make a folder for the lab's servers: %w", err)
	}
	if err := s.openScratch(ctx); err != nil {
		return nil, err
	}
	if _, err := storage.Migrate(ctx, s.scratch); err != nil {
		return nil, err
	}
	if s.store, err = storage.Open(ctx, s.scratch, storage.Options{MaxConns: 4}); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.store.Close)
	return s, s.store.MakeLabTable(ctx)
}

func (s *labServers) openScratch(ctx context.Context) (err error) {
	s.postgres, err = localpg.Start(ctx, localpg.Options{Dir: filepath.Join(s.dir, "postgres"),
		Settings: map[string]string{"fsync": "off", "max_connections": "200"}})
	if err == nil {
		s.closers = append(s.closers, func() { s.later(s.postgres.Stop) })
		s.scratch = s.postgres.URL("lab")
		return s.postgres.EnsureDatabase(ctx, "lab")
	}
	if !errors.Is(err, localpg.ErrNotInstalled) || s.cli.conf.DatabaseURL == "" {
		return err
	}
	scratch, drop, err := storage.ScratchDatabase(ctx, s.cli.conf.DatabaseURL, "fenceline_lab")
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() { s.later(drop) })
	s.scratch = scratch
	return nil
}

// later runs what must also be done after Ctrl-C.
func (s *labServers) later(fn func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := fn(ctx); err != nil {
		fmt.Fprintln(s.cli.err, "lab: something is left behind:", err)
	}
}

func (s *labServers) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
}

// labRedis is a Redis of the lab.
type labRedis struct {
	addr, password string
	kill           func()
}

func (r labRedis) url() string { return "redis://:" + r.password + "@" + r.addr + "/0" }

// redisServer is the program, empty where it is not installed.
func redisServer() string {
	path, _ := exec.LookPath("redis-server") // no path is the answer
	return path
}

// redis starts a Redis: the program, with lines of configuration, or the one in
// this process, which knows none of them.
func (s *labServers) redis(ctx context.Context, lines ...string) (labRedis, error) {
	program := redisServer()
	if program == "" {
		r, err := localredis.Start("127.0.0.1:0")
		if err != nil {
			return labRedis{}, err
		}
		s.closers = append(s.closers, r.Stop)
		_, rest, _ := strings.Cut(r.URL(), "://:")
		password, _, _ := strings.Cut(rest, "@")
		return labRedis{r.Addr(), password, r.Stop}, nil
	}
	var err error
	for range 5 { // somebody else may take the port first
		var r labRedis
		if r, err = s.launchRedis(ctx, program, lines); err == nil || ctx.Err() != nil {
			return r, err
		}
	}
	return labRedis{}, err
}

func (s *labServers) launchRedis(ctx context.Context, program string, lines []string) (r labRedis, err error) {
	if r.addr, err = freeAddress(); err != nil {
		return r, err
	}
	r.password = s.password
	_, port, _ := net.SplitHostPort(r.addr)
	dir, err := os.MkdirTemp(s.dir, "redis-")
	if err != nil {
		return r, fmt.Errorf("make a folder for Redis: %w", err)
	}
	conf := append([]string{"bind 127.0.0.1", "port " + port, "dir " + dir, `save ""`, "requirepass " + r.password, "repl-diskless-sync-delay 0"}, lines...)
	cmd := exec.Command(program, "-")
	cmd.Stdin = strings.NewReader(strings.Join(conf, "\n") + "\n") // not on the command line, which everybody may read
	r.kill, err = s.launch(ctx, cmd, "redis-server", func() bool { return tellRedis(ctx, r, "PING") == nil })
	return r, err
}

// launch starts a server that ends with the lab, and returns when it is ready.
func (s *labServers) launch(ctx context.Context, cmd *exec.Cmd, name string, ready func() bool) (kill func(), err error) {
	cmd.SysProcAttr = processAttributes()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	kill = func() {
		_ = cmd.Process.Kill() // fails only when it has ended
		<-ended
	}
	s.closers = append(s.closers, kill)
	return kill, poll(ctx, 20*time.Millisecond, 30*time.Second, name+" is ready", func() (bool, error) {
		select {
		case <-ended:
			return false, fmt.Errorf("%s ended by itself (%s)", name, cmd.ProcessState)
		default:
			return ready(), nil
		}
	})
}

// etcd starts one server of etcd, which is its own majority.
func (s *labServers) etcd(ctx context.Context, program string) (addr string, err error) {
	addr, err = freeAddress()
	if err != nil {
		return "", err
	}
	peer, err := freeAddress()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(program, "--data-dir", filepath.Join(s.dir, "etcd"), "--log-level", "error", "--listen-client-urls", "http://"+addr, "--advertise-client-urls", "http://"+addr,
		"--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer, "--initial-cluster", "default=http://"+peer)
	_, err = s.launch(ctx, cmd, "etcd", func() bool { return answers(addr) })
	return addr, err
}

// zooKeeperClasses are where Debian's packages put them, beside each other.
const zooKeeperClasses = "/usr/share/java/zookeeper.jar"

// zooKeeper starts one server of ZooKeeper with a tick that lets short leases live.
func (s *labServers) zooKeeper(ctx context.Context) (addr string, err error) {
	if addr, err = freeAddress(); err != nil {
		return "", err
	}
	_, port, _ := net.SplitHostPort(addr)
	dir := filepath.Join(s.dir, "zookeeper")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a folder for ZooKeeper: %w", err)
	}
	conf := filepath.Join(dir, "zoo.cfg")
	text := "tickTime=250\ndataDir=" + dir + "\nclientPortAddress=127.0.0.1\nclientPort=" + port + "\nmaxClientCnxns=0\nadmin.enableServer=false\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("configure ZooKeeper: %w", err)
	}
	cmd := exec.Command("java", "-Xmx96m", "-XX:+UseSerialGC", "-cp", filepath.Join(filepath.Dir(zooKeeperClasses), "*"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", conf)
	_, err = s.launch(ctx, cmd, "ZooKeeper", func() bool { return answers(addr) })
	return addr, err
}

// answers is whether somebody listens.
func answers(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	_ = c.Close() // nothing was said
	return true
}

// freeAddress is one of this machine that nobody listens on just now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("look for a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// tellRedis sends a command on a connection of its own.
func tellRedis(ctx context.Context, r labRedis, command ...any) error {
	_, err := redisSays(ctx, r, command...)
	return err
}

func redisSays(ctx context.Context, r labRedis, command ...any) (string, error) {
	c, err := jobs.OpenRedis(ctx, r.url(), "lab")
	if err != nil {
		return "", err
	}
	defer c.Client.Close()
	answer, err := c.Client.Do(ctx, command...).Result()
	return fmt.Sprint(answer), err
}
