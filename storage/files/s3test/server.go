// Package s3test gives tests a real server that speaks S3: versitygw over a
// folder in memory, on a free loopback port.
//
// The tests of a process share one server, each with a bucket of its own. It
// starts with the first bucket and ends with the last. `make tools` compiles the
// program to bin/versitygw; where it is missing the test fails: a check that
// cannot run has not passed.
package s3test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// What the server knows and [New] puts into the environment, where the AWS
// configuration of this process and of its children finds it.
const (
	AccessKey = "fenceline-test"
	SecretKey = "not-a-secret-0123456789"
)

// server is the one of this process while a test has a bucket of it.
type server struct {
	mu       sync.Mutex
	users    int
	made     int // buckets
	root     string
	endpoint string
	cmd      *exec.Cmd
	done     chan struct{}
	output   *bytes.Buffer // read it after done
}

// process is the only state of the package, so that not every test starts a server.
var process server

// Bucket is an empty bucket of one test.
type Bucket struct {
	Name     string
	Endpoint string // http://127.0.0.1:PORT
	dir      string
}

// New makes a bucket, which is removed after the test.
func New(t testing.TB) *Bucket {
	t.Helper()
	b, err := process.bucket()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.leave(b); err != nil {
			t.Error(err)
		}
	})
	return b
}

// URL names a part of the bucket as FILES_URL does; further parameters look like
// timeout=1s.
func (b *Bucket) URL(prefix string, parameters ...string) string {
	return b.Via(b.Endpoint, prefix, parameters...)
}

// Via is [Bucket.URL] at another endpoint, such as a [Proxy].
func (b *Bucket) Via(endpoint, prefix string, parameters ...string) string {
	query := append([]string{"region=us-east-1", "endpoint=" + url.QueryEscape(endpoint)}, parameters...)
	return "s3://" + b.Name + "/" + prefix + "?" + strings.Join(query, "&")
}

// Plant puts an object into the bucket behind the server's back.
func (b *Bucket) Plant(key, text string) error {
	to := filepath.Join(b.dir, filepath.FromSlash(key))
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return err
	}
	return os.WriteFile(to, []byte(text), 0o600)
}

// Remove removes an object, or the bucket with all that it holds when key is empty.
func (b *Bucket) Remove(key string) error {
	return os.RemoveAll(filepath.Join(b.dir, filepath.FromSlash(key)))
}

func (s *server) bucket() (*Bucket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		if err := s.start(); err != nil {
			return nil, fmt.Errorf("s3test: %w", err)
		}
	}
	s.users++
	s.made++
	name := fmt.Sprintf("test-%d", s.made)
	b := &Bucket{Name: name, Endpoint: s.endpoint, dir: filepath.Join(s.root, name)}
	return b, os.Mkdir(b.dir, 0o750)
}

func (s *server) leave(b *Bucket) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := os.RemoveAll(b.dir)
	if s.users--; s.users == 0 {
		err = errors.Join(err, s.stop())
	}
	return err
}

// find looks for the program from the working directory upward.
func find() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", errors.New("the root of the repository is not above the working directory")
		}
		dir = above
	}
	bin := filepath.Join(dir, "bin", "versitygw")
	if runtime.GOOS == "windows" {
		bin += ".exe"
	}
	if _, err := os.Stat(bin); err != nil {
		return "", fmt.Errorf("bin/versitygw is missing, an S3 server for tests; `make tools` compiles it")
	}
	return bin, nil
}

const folderPrefix = "fenceline-s3-"

// leftOver is when a folder belongs to a test process that was killed.
const leftOver = time.Hour

// newRoot is in memory where there is such a place.
func newRoot() (string, error) {
	base := "/dev/shm"
	if _, err := os.Stat(base); err != nil {
		base = os.TempDir()
	}
	old, _ := filepath.Glob(filepath.Join(base, folderPrefix+"*"))
	for _, dir := range old {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > leftOver {
			_ = os.RemoveAll(dir)
		}
	}
	return os.MkdirTemp(base, folderPrefix)
}

func (s *server) start() (err error) {
	bin, err := find()
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": AccessKey, "AWS_SECRET_ACCESS_KEY": SecretKey, "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	if s.root, err = newRoot(); err != nil {
		return err
	}
	for try := range 3 { // another process may take the port
		if err = s.startOn(bin); err == nil {
			return nil
		}
		_ = try
	}
	_ = os.RemoveAll(s.root)
	return err
}

func (s *server) startOn(bin string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		return err
	}
	s.endpoint, s.done, s.output = "http://"+addr, make(chan struct{}), new(bytes.Buffer)
	s.cmd = exec.Command(bin, "--quiet", "--port", addr, "posix", s.root)
	s.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.SysProcAttr = s.output, s.output, attributes()
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the death signal comes when the thread ends that made the child
		defer runtime.UnlockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait()
			close(s.done)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	return s.await()
}

// await returns when the server answers; whoever asks without a signature is refused.
func (s *server) await() error {
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if resp, err := http.Get(s.endpoint); err == nil {
			return resp.Body.Close()
		}
		select {
		case <-s.done:
			return fmt.Errorf("versitygw has ended: %s", s.output)
		case <-deadline.C:
			_ = s.cmd.Process.Kill()
			<-s.done
			return fmt.Errorf("versitygw does not answer: %s", s.output)
		case <-tick.C:
		}
	}
}

func (s *server) stop() error {
	_ = s.cmd.Process.Kill() // fails only when it has ended
	<-s.done
	return os.RemoveAll(s.root)
}
