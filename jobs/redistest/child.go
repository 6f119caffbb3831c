package redistest

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// child is a process that has been started.
type child struct {
	process *os.Process
	done    chan struct{}
	output  bytes.Buffer // read it after done
}

// spawn starts a program and waits for it in the background.
func spawn(bin string, args ...string) (*child, error) {
	c := &child{done: make(chan struct{})}
	cmd := exec.Command(bin, args...)
	cmd.Stdout, cmd.Stderr = &c.output, &c.output
	cmd.SysProcAttr = attributes()
	started := make(chan error)
	go func() {
		// On Linux the death signal is sent when the thread that made the child ends,
		// and Go ends threads as it likes: this one stays for as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		c.process = cmd.Process
		started <- err
		if err == nil {
			_ = cmd.Wait() // how a server ended that a test has killed means nothing
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// kill returns when the process is gone.
func (c *child) kill() {
	_ = c.process.Kill() // fails only when it has ended
	<-c.done
}

// terminate asks the process to end and kills it when it does not.
func (c *child) terminate(limit time.Duration) {
	if c.ended() {
		return
	}
	_ = c.thaw() // a frozen process would not hear
	_ = c.ask()  // when it cannot be asked it is killed
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		c.kill()
	}
}
