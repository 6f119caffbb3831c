package localpg

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// child is a process of ours that has been started.
type child struct {
	process *os.Process
	done    chan struct{}
	err     error // how it ended; read it after done
}

// spawn starts cmd and waits for it in the background.
func spawn(cmd *exec.Cmd) (*child, error) {
	c := &child{done: make(chan struct{})}
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
			c.err = cmd.Wait()
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// run is spawn for a command that ends by itself. When ctx ends first, the command
// and its children are killed. The error holds what the command printed.
func run(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	c, err := spawn(cmd)
	if err != nil {
		return "", err
	}
	if !wait(ctx, c.done) {
		killAll(c.process)
		<-c.done
		return "", context.Cause(ctx)
	}
	if c.err != nil {
		return "", &startError{c.err, lastLines(out.String())}
	}
	return out.String(), nil
}

// environment is ours without what PostgreSQL would read from it, and with
// messages in English, which the code reads.
func environment() []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "PG") && !strings.HasPrefix(pair, "LC_") && !strings.HasPrefix(pair, "LANG") {
			env = append(env, pair)
		}
	}
	return append(env, "LC_ALL=C")
}
