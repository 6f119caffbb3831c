package localpg

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// mode is how a server is asked to stop.
type mode int

const (
	fast      mode = iota // SIGINT: connections are cut, everything is written out
	immediate             // SIGQUIT: the next start recovers
)

// leaveWait is how long a server whose owner has died may take to end by itself.
const leaveWait = 2 * time.Second

// postmaster is what postmaster.pid in the data folder says. Zero when there is
// no such file or it is not finished.
type postmaster struct {
	pid     int
	started time.Time // in whole seconds
}

// readPostmaster reads the first and the third line of the file: pid and start
// time (src/include/utils/pidfile.h of PostgreSQL).
func readPostmaster(data string) (postmaster, error) {
	f, err := os.Open(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return postmaster{}, ignoreMissing(err)
	}
	defer f.Close()
	var lines []string
	for in := bufio.NewScanner(f); in.Scan() && len(lines) < 3; {
		lines = append(lines, strings.TrimSpace(in.Text()))
	}
	if len(lines) < 3 {
		return postmaster{}, nil
	}
	pid, err := strconv.Atoi(lines[0])
	seconds, timeErr := strconv.ParseInt(lines[2], 10, 64)
	if err != nil || timeErr != nil || pid <= 0 {
		return postmaster{}, nil
	}
	return postmaster{pid: pid, started: time.Unix(seconds, 0)}, nil
}

// endEarlier makes sure that no earlier server works on the data: its owner is
// dead, for we hold the lock, so it is either ending already or must be ended. A
// pid that belongs to somebody else by now, or to nobody, is returned as stale and
// left alone.
func endEarlier(ctx context.Context, data, bin string, log *slog.Logger) (stale int, err error) {
	earlier, err := readPostmaster(data)
	if err != nil || earlier.pid == 0 {
		return 0, err
	}
	// The handle before the check: it cannot move on to another process afterwards.
	process, err := os.FindProcess(earlier.pid)
	if err != nil {
		return 0, nil // on Windows: no such process
	}
	defer process.Release()
	if !serves(earlier, data) {
		return earlier.pid, nil
	}
	log.Info("waiting for an earlier PostgreSQL server on this folder to end", "pid", earlier.pid)
	if gone(ctx, earlier, data, leaveWait) {
		return 0, nil
	}
	var sent error
	for _, step := range []struct {
		mode mode
		wait time.Duration
	}{{fast, fastWait}, {immediate, immediateWait}} {
		log.Warn("stopping an earlier PostgreSQL server on this folder", "pid", earlier.pid, "immediate", step.mode == immediate)
		sent = errors.Join(sent, shutdown(process, bin, step.mode))
		if gone(ctx, earlier, data, step.wait) {
			return 0, nil
		}
	}
	return 0, errors.Join(fmt.Errorf("an earlier PostgreSQL server (process %d) on %s does not end: stop it, then start again",
		earlier.pid, data), sent, context.Cause(ctx))
}

// gone waits until the earlier server no longer serves the data.
func gone(ctx context.Context, earlier postmaster, data string, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for serves(earlier, data) {
		if !pause(ctx, pollEvery) {
			return false
		}
	}
	return true
}
