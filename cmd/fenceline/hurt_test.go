package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// hurtProgram is the program as tests hurt it: with a kind of job that can be
// checked, and with a fault that FENCELINE_TEST_KILL names.
func hurtProgram() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	x := extras{kinds: []jobs.Kind{chaosKind(), bookKind(os.Getenv("DATABASE_URL"))}}
	if point := os.Getenv("FENCELINE_TEST_KILL"); point != "" {
		x.faults = killAt(point)
	}
	return run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr, x)
}

// killAt ends the process without any warning when an attempt comes to the point.
type killAt jobs.Point

func (k killAt) At(_ context.Context, p jobs.Point) error {
	if p != jobs.Point(k) {
		return nil
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// startHurt starts a worker of this test binary.
func (s *site) startHurt(env string, args ...string) *process {
	s.t.Helper()
	path, err := os.Executable()
	s.must(err)
	s.env["FENCELINE_TEST_PROGRAM"], s.env["FENCELINE_TEST_KILL"] = "1", env
	return s.startProgram(path, args...)
}

// chaosPayload asks for an export whose content can be checked.
type chaosPayload struct {
	Key    string `json:"key"`
	Millis int    `json:"millis"` // how long it takes to write
	Deaf   bool   `json:"deaf"`   // ignores the end of its context
}

// chaosKind writes what a reader can check: on every line the token and the
// version of the data that the attempt's snapshot has seen.
func chaosKind() jobs.Kind {
	return jobs.Kind{Name: "chaos", Version: 1, Decode: func(in jobs.Payload) (jobs.Task, error) {
		var p chaosPayload
		if err := json.Unmarshal(in.Body, &p); err != nil {
			return jobs.Task{}, err
		}
		return jobs.Task{Key: p.Key, Title: p.Key, Render: func(ctx context.Context, r *jobs.Run) error { return renderChaos(ctx, r, p) }}, nil
	}}
}

const chaosLines = 200

func renderChaos(ctx context.Context, r *jobs.Run, p chaosPayload) error {
	view, err := r.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	rows, err := view.Query(ctx, "SELECT version FROM chaos", nil)
	if err != nil {
		return err
	}
	if !rows.Next() {
		return errors.Join(errors.New("the table chaos is empty"), rows.Err())
	}
	line := fmt.Sprintf("token %d version %s %s\n", r.Token(), rows.Values()[0], strings.Repeat(".", 200))
	if p.Deaf {
		ctx = context.WithoutCancel(ctx)
	}
	out, err := r.Create("chaos.txt", "txt", "text/plain")
	if err != nil {
		return err
	}
	defer out.Close()
	pace := time.NewTicker(max(time.Duration(p.Millis)*time.Millisecond/chaosLines, time.Microsecond))
	defer pace.Stop()
	for i := range int64(chaosLines) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pace.C:
		}
		if _, err := out.Write([]byte(line)); err != nil {
			return err
		}
		r.Progress(i + 1)
	}
	return out.Commit(chaosLines)
}

// checkChaos reads a chaos file: whole, and of one token and version.
func checkChaos(text string) (token, version int64, err error) {
	lines := 0
	for sc := bufio.NewScanner(strings.NewReader(text)); sc.Scan(); lines++ {
		var t, v int64
		if _, err := fmt.Sscanf(sc.Text(), "token %d version %d", &t, &v); err != nil {
			return 0, 0, fmt.Errorf("line %d: %w", lines+1, err)
		}
		if lines > 0 && (t != token || v != version) {
			return 0, 0, fmt.Errorf("line %d is of token %d, version %d; the others of %d, %d", lines+1, t, v, token, version)
		}
		token, version = t, v
	}
	if lines != chaosLines {
		return 0, 0, fmt.Errorf("%d lines, want %d", lines, chaosLines)
	}
	return token, version, nil
}

// kill -9 at every step: another worker does the job, once, and the sweep leaves
// nothing of the dead one.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, point := range jobs.Points() {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, redistest.Shared(t))
			s.sql("CREATE TABLE chaos (version bigint NOT NULL)", "INSERT INTO chaos VALUES (1)")
			victim := s.startHurt(string(point), "work")
			victim.says("worker started")
			job := s.chaosJob(chaosPayload{Key: "sales", Millis: 50})
			<-victim.exited
			s.startHurt("", "work").says("worker started")
			until(t, "the job is done", func() bool { return s.job(job.ID).State == storage.JobDone })
			s.ok("sweep", "--sweep-grace", "0s", "--sweep-quarantine", "0s")
			e := asJSON[exportAnswer](s, "export", "show", job.ExportID.String())
			raw, err := os.ReadFile(s.currentPath(e))
			s.must(err)
			if token, _, err := checkChaos(string(raw)); err != nil || token != e.Export.LastToken {
				t.Errorf("the current file is of token %d, the pointer of %d: %v", token, e.Export.LastToken, err)
			}
			if left := s.find(""); len(left) != 3 { // the mark of the folder, the current file and its manifest
				t.Errorf("after the sweep: %v", left)
			}
		})
	}
}
