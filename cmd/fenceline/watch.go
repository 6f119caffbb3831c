package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/term"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// watch follows a job until it has ended, by looking at it.
func (c *cli) watch(ctx context.Context, store *storage.Store, id uuid.UUID) (storage.Job, error) {
	bar := c.newBar()
	defer bar.end()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		job, err := store.Job(ctx, everything, id)
		if err != nil {
			return job, err
		}
		if job.State.Ended() {
			return job, nil
		}
		var working *storage.Attempt
		if job.AttemptID != nil {
			a, err := store.Attempt(ctx, *job.AttemptID)
			if err != nil {
				return job, err
			}
			working = &a
		}
		bar.show(job, working)
		select {
		case <-ctx.Done():
			return job, ctx.Err()
		case <-tick.C:
		}
	}
}

// bar is the progress line on a terminal; elsewhere it prints each change of step.
type bar struct {
	out  io.Writer
	live bool
	last string
}

func (c *cli) newBar() *bar {
	f, ok := c.err.(*os.File)
	return &bar{out: c.err, live: ok && term.IsTerminal(int(f.Fd()))}
}

// show prints where a job is; working is the attempt that works on it, if any.
func (b *bar) show(job storage.Job, working *storage.Attempt) {
	line, step := string(job.State), string(job.State)
	if job.WaitingFor != nil {
		line, step = "waiting for "+*job.WaitingFor, "waiting"
	}
	if p := plainProgress(job); p != "" {
		line, step = p, p
	}
	if a := working; a != nil {
		step = a.Step
		line = fmt.Sprintf("%s %s  attempt %d, %s, %s, %s, %s", drawBar(*a), job.State, a.Number, tokenOf(*a), a.Step, count.Of(a.Rows, "row"), count.Of(a.Bytes, "byte"))
	}
	if b.live {
		fmt.Fprintf(b.out, "\r\x1b[K%s", line)
	} else if step != b.last {
		fmt.Fprintln(b.out, line)
	}
	b.last = step
}

// tokenOf is the token of an attempt, and beside it the order of its lease if its service gave one.
func tokenOf(a storage.Attempt) string {
	if a.LeaseOrder.Name == "" {
		return fmt.Sprintf("token %d", a.Token)
	}
	return fmt.Sprintf("token %d · %s", a.Token, a.LeaseOrder)
}

// plainProgress is what a plain job at work has reported; empty for nothing.
func plainProgress(job storage.Job) string {
	var p struct {
		Done, Total int64
		Note        string
	}
	if !job.Plain() || job.State.Ended() || job.State == storage.JobQueued || json.Unmarshal(job.Progress, &p) != nil {
		return ""
	}
	line := fmt.Sprintf("%s %d", job.State, p.Done)
	if p.Total > 0 {
		line += fmt.Sprintf(" of %d", p.Total)
	}
	if p.Note != "" {
		line += ", " + inCellWhole(p.Note)
	}
	return line
}

func (b *bar) end() {
	if b.live {
		fmt.Fprint(b.out, "\r\x1b[K")
	}
}

// drawBar fills with the steps, and inside "write" with the rows when their number is known.
func drawBar(a storage.Attempt) string {
	const width = 24
	full := map[string]float64{"count": 0.05, "read": 0.05, "write": 0.1, "seal": 0.9, "publish": 0.95}[a.Step]
	if a.Step == "write" && a.RowsExpected != nil && *a.RowsExpected > 0 {
		full += 0.8 * min(1, float64(a.Rows)/float64(*a.RowsExpected))
	}
	n := int(full * width)
	return "[" + strings.Repeat("█", n) + strings.Repeat("·", width-n) + "]"
}

// save copies a published file to where the user wants it.
func (c *cli) save(ctx context.Context, a *app, attempt storage.Attempt, f storage.File, to string) error {
	src, err := a.files.Open(ctx, files.Place{Export: attempt.ExportID, Token: attempt.Token, Attempt: attempt.ID}, f.Object)
	if err != nil {
		return err
	}
	defer src.Close()
	return c.saveStream(src, f.Name, f.SHA256.String(), to)
}

// saveStream writes a file whole or not at all, and checks that it has the hash
// that was published. - is standard output.
func (c *cli) saveStream(src io.Reader, name, sha256Hex, to string) (err error) {
	h := sha256.New()
	check := func() error {
		if got := hex.EncodeToString(h.Sum(nil)); got != sha256Hex {
			return fmt.Errorf("file %s does not have the hash that was published (%s, not %s): it was damaged or cut", name, got, sha256Hex)
		}
		return nil
	}
	if to == "-" {
		_, err = io.Copy(io.MultiWriter(c.out, h), src)
		return errors.Join(err, check())
	}
	dst, err := os.CreateTemp(filepath.Dir(to), ".fenceline-*")
	if err != nil {
		return fmt.Errorf("save to %s: %w", to, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(dst.Name())
		}
	}()
	_, err = io.Copy(io.MultiWriter(dst, h), src)
	if err == nil {
		err = check()
	}
	if err = errors.Join(err, dst.Sync(), dst.Chmod(0o644), dst.Close()); err != nil {
		return fmt.Errorf("save to %s: %w", to, err)
	}
	return os.Rename(dst.Name(), to)
}
