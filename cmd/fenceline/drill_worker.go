package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs"
)

// drillWorker is a worker process of a drill. Its log is read while it runs.
type drillWorker struct {
	label   string // worker A or worker B
	cmd     *exec.Cmd
	output  *workerLog
	stopped bool // ended by the drill, or about to be
	ended   chan struct{}
}

func (w *drillWorker) pid() int { return w.cmd.Process.Pid }

// made reports whether an attempt's worker is this process: names are
// host-pid-random.
func (w *drillWorker) made(name string) bool {
	rest, _, _ := cutLast(name, "-")
	_, pid, found := cutLast(rest, "-")
	return found && pid == fmt.Sprint(w.pid())
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// alive is an error when the process has ended although the drill did not end it.
func (w *drillWorker) alive() error {
	select {
	case <-w.ended:
		if !w.stopped {
			return fmt.Errorf("%s ended by itself (%s); it said last: %s", w.label, w.cmd.ProcessState, w.output.last())
		}
	default:
	}
	return nil
}

// spawn starts this program again with the servers of this deployment. Secrets go
// by the environment, which the process list does not show.
func spawn(ctx context.Context, a *app, label string, extra []string, args ...string) (*drillWorker, error) {
	env := []string{
		"DATABASE_URL=" + a.conf.DatabaseURL, "DATABASE_DIRECT_URL=" + a.conf.DirectURL, "REDIS_URL=" + a.conf.RedisURL, "REPORTS_DIR=" + a.conf.Reports,
		"FENCELINE_DATA=" + a.conf.Data, "FENCELINE_NAMESPACE=" + a.conf.Namespace, "FENCELINE_LEASE=" + a.conf.Lease.String(),
		"FENCELINE_CONFIG=" + a.conf.configPath(), "FENCELINE_GRACE=0s"}
	if strings.Contains(a.conf.Files, "://") {
		env = append(env, "FILES_URL="+a.conf.Files, "FILES_DIR=")
	} else {
		env = append(env, "FILES_URL=", "FILES_DIR="+a.conf.Files)
	}
	return spawnSelf(ctx, label, nil, append(env, extra...), args...) // the last one counts
}

// spawnSelf starts this program again as a process that outlives neither this one
// nor, where the system can promise that, its sudden end. It logs in JSON, and reads in.
func spawnSelf(ctx context.Context, label string, in io.Reader, env []string, args ...string) (*drillWorker, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	w := &drillWorker{label: label, output: &workerLog{}, ended: make(chan struct{})}
	w.cmd = exec.CommandContext(context.WithoutCancel(ctx), path, args...)
	w.cmd.Env = append(append(os.Environ(), "LOG_FORMAT=json", "LOG_LEVEL=info"), env...)
	w.cmd.Stdin, w.cmd.Stdout, w.cmd.Stderr = in, w.output, w.output
	w.cmd.SysProcAttr = processAttributes()
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", label, err)
	}
	go func() {
		defer close(w.ended)
		_ = w.cmd.Wait()
	}()
	return w, nil
}

// stop ends the process: politely, and after a while not. It may be frozen.
func (w *drillWorker) stop(patience time.Duration) error {
	w.stopped = true
	_ = thaw(w.cmd.Process)
	if err := w.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		_ = w.cmd.Process.Kill() // where there are no signals
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.ended:
		return nil
	case <-timer.C:
	}
	if err := w.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s (process %d): %w", w.label, w.pid(), err)
	}
	<-w.ended
	return nil
}

// workerLine is a line of a worker's log, as far as a drill understands it.
type workerLine struct {
	Time      time.Time `json:"time"`
	Msg       string    `json:"msg"`
	Token     int64     `json:"token"`
	Reason    string    `json:"reason"`
	Error     string    `json:"error"`
	JobBecame string    `json:"job_became"`
	Said      string    `json:"said"`  // of a worker without a fence, and of a holder of the lab
	Order     string    `json:"order"` // of the latter's lease
	Value     int64     `json:"value"` // that it wrote
}

// workerLog keeps what a process says. It is safe for concurrent use.
type workerLog struct {
	mu    sync.Mutex
	rest  []byte // of a line that has not ended
	raw   []string
	lines []workerLine
}

// Write takes the process's output apart into lines.
func (l *workerLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, b...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(b), nil
		}
		l.raw = append(l.raw, string(line))
		var parsed workerLine
		if json.Unmarshal(line, &parsed) == nil {
			l.lines = append(l.lines, parsed)
		}
		l.rest = rest
	}
}

// find is the first line that fits.
func (l *workerLog) find(fits func(workerLine) bool) (workerLine, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if fits(line) {
			return line, true
		}
	}
	return workerLine{}, false
}

func (l *workerLog) says(msg string) bool {
	_, found := l.find(func(line workerLine) bool { return line.Msg == msg })
	return found
}

// all are the lines so far that could be understood.
func (l *workerLog) all() []workerLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// last are the newest lines, for whoever has to find out what went wrong.
func (l *workerLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.raw) == 0 {
		return "nothing"
	}
	return strings.Join(l.raw[max(0, len(l.raw)-5):], " | ")
}

// lingerLine is what a lingering worker logs when its file is complete.
const lingerLine = "the file is complete, about to publish"

// linger keeps an attempt for a moment between the last two steps, so that a
// signal hits it there. A freeze there needs no help in life, only bad luck.
type linger struct{ log *slog.Logger }

// At waits before the publish, whatever becomes of the lease meanwhile: the
// attempt goes on as one that was frozen here and has noticed nothing.
func (l linger) At(_ context.Context, p jobs.Point) error {
	if p == jobs.PointSealed {
		l.log.Info(lingerLine)
		moment := time.NewTimer(2 * time.Second)
		defer moment.Stop()
		<-moment.C
	}
	return nil
}

// drillWorkerCmd is `work` with a worker that lingers before it publishes.
func (c *cli) drillWorkerCmd() *cobra.Command {
	cmd := c.workCmd()
	cmd.Use, cmd.Hidden, cmd.Short = "worker", true, "A worker that can be hit between its file and its publication"
	work := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.extras.faults = linger{c.log}
		return work(cmd, args)
	}
	return cmd
}
