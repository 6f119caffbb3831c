// Package processtest starts the servers of tests: child processes that end with
// the test program, however it ends, and that can be killed and frozen.
package processtest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// Process is a process that has been started. It is safe for concurrent use.
type Process struct {
	process *os.Process
	done    chan struct{}
	output  bytes.Buffer // complete after done
}

// Spawn starts a program and waits for it in the background.
func Spawn(bin string, args ...string) (*Process, error) {
	p := &Process{done: make(chan struct{})}
	cmd := exec.Command(bin, args...)
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	cmd.SysProcAttr = attributes()
	started := make(chan error)
	go func() {
		// On Linux the death signal is sent when the thread that made the child ends,
		// and Go ends threads as it likes: this one stays for as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		p.process = cmd.Process
		started <- err
		if err == nil {
			_ = cmd.Wait() // how a server ended that a test has killed means nothing
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Pid is its number.
func (p *Process) Pid() int { return p.process.Pid }

// Output is what it has said; it waits for the end of the process.
func (p *Process) Output() string {
	<-p.done
	return p.output.String()
}

// Ended is whether it has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill ends it with SIGKILL and returns when the process is gone.
func (p *Process) Kill() {
	_ = p.process.Kill() // fails only when it has ended
	<-p.done
}

// Terminate asks the process to end and kills it when it does not.
func (p *Process) Terminate(limit time.Duration) {
	if p.Ended() {
		return
	}
	_ = p.Thaw() // a frozen process would not hear
	_ = p.ask()  // when it cannot be asked it is killed
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.Kill()
	}
}

// FreePorts are ports of the loopback address that nobody listens at. Somebody
// may take one before its server does: then start it again with others.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() // all are held until the last is found
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}
