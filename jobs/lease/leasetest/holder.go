package leasetest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs"
)

// holderVariable is how a test program learns that it is a holder.
const holderVariable = "FENCELINE_LEASETEST_HOLDER"

// order is what a holder is told.
type order struct {
	Address  string
	Options  jobs.LeaseOptions
	Resource string
}

// Main plays the holder when this process was started as one, and answers false
// otherwise. TestMain calls it before it does anything else.
func Main(open Open) bool {
	told, ok := os.LookupEnv(holderVariable)
	if !ok {
		return false
	}
	if err := hold(open, told); err != nil {
		fmt.Println("failed:", err)
	}
	return true
}

// hold takes a lease, says so, and says when it has lost it.
func hold(open Open, told string) error {
	var o order
	if err := json.Unmarshal([]byte(told), &o); err != nil {
		return err
	}
	ctx := context.Background()
	l, end, err := open(ctx, o.Address, o.Options)
	if err != nil {
		return err
	}
	defer end()
	var lease *jobs.Lease
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(patience); ; <-look.C {
		if lease, err = l.Acquire(ctx, o.Resource); err == nil {
			break
		}
		if time.Now().After(deadline) {
			return err
		}
	}
	fmt.Println("held")
	<-lease.Context().Done()
	fmt.Println("lost:", context.Cause(lease.Context()))
	return nil
}

// holder is a process that holds a lease.
type holder struct {
	process *os.Process
	lines   chan string
	ended   chan struct{}
}

// holder starts a process that holds the lease on a resource, and answers when it does.
func (st *stage) holder(t *testing.T, resource string) *holder {
	t.Helper()
	told, err := json.Marshal(order{st.server.URL(), st.options("holder"), resource})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{lines: make(chan string, 10), ended: make(chan struct{})}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), holderVariable+"="+string(told))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = dieWithTest()
	started := make(chan error)
	go h.run(cmd, started)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.kill)
	if said := h.next(t); said != "held" {
		t.Fatalf("the holder said %q", said)
	}
	return h
}

// run starts the holder and reads what it says until it ends. The signal that ends
// it with the test is bound to the thread that started it.
func (h *holder) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(h.ended)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	h.process = cmd.Process
	started <- err
	if err != nil {
		return
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		h.lines <- lines.Text()
	}
	_ = cmd.Wait() // it was killed, or has said why it ended
}

// next is what the holder says next.
func (h *holder) next(t *testing.T) string {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case line := <-h.lines:
		return line
	case <-timer.C:
		t.Fatal("the holder says nothing")
		return ""
	}
}

// kill returns when the process is gone.
func (h *holder) kill() {
	_ = h.process.Kill() // fails only when it has ended
	<-h.ended
}
