package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// view is what a reader of the export gets.
type view struct {
	attempt storage.Attempt
	file    storage.File
	sha256  string // of the bytes in the file store; empty when the file is not there
	size    int64
}

// read follows the export's pointer to the bytes of its file.
func (d *drill) read(ctx context.Context) (view, error) {
	export, err := d.app.store.Export(ctx, d.scope(), d.export)
	if err != nil {
		return view{}, err
	}
	if export.AttemptID == nil {
		return view{}, nil
	}
	v := view{}
	if v.attempt, err = d.app.store.Attempt(ctx, *export.AttemptID); err != nil {
		return v, err
	}
	list, err := d.app.store.Files(ctx, v.attempt.ID)
	if err != nil || len(list) == 0 {
		return v, err
	}
	v.file = list[0]
	f, err := d.app.files.Open(ctx, place(v.attempt), v.file.Object)
	if errors.Is(err, files.ErrNotFound) {
		return v, nil
	}
	if err != nil {
		return v, err
	}
	defer f.Close()
	h := sha256.New()
	if v.size, err = io.Copy(h, f); err != nil {
		return v, fmt.Errorf("read the published file: %w", err)
	}
	v.sha256 = hex.EncodeToString(h.Sum(nil))
	return v, nil
}

func place(a storage.Attempt) files.Place {
	return files.Place{Export: a.ExportID, Token: a.Token, Attempt: a.ID}
}

// remember reads the published file before what must not change it.
func (d *drill) remember(ctx context.Context) error {
	v, err := d.read(ctx)
	if err != nil {
		return err
	}
	d.file = &drillFile{Name: v.file.Name, Token: v.attempt.Token, Rows: v.file.Rows, Bytes: v.size, Before: v.sha256, After: v.sha256}
	d.ended = slices.Clone(d.jobs)
	d.checkFile(v)
	d.note(byDrill, v.attempt.Token, "read the published file: sha256 %.8s…", v.sha256)
	return nil
}

func (d *drill) breaks(format string, args ...any) {
	sentence := fmt.Sprintf(format, args...)
	if !slices.Contains(d.broken, sentence) {
		d.broken = append(d.broken, sentence)
	}
}

// checkFile is L1: what the pointer names is there, as it was recorded.
func (d *drill) checkFile(v view) {
	switch {
	case v.attempt.ID == uuid.Nil:
		d.breaks("L1, the export has no publication although a job is done")
	case v.sha256 == "":
		d.breaks("L1, the pointer names token %d, whose file is not there", v.attempt.Token)
	case v.sha256 != v.file.SHA256.String() || v.size != v.file.Size:
		d.breaks("L1, the file of token %d is not the one that was recorded", v.attempt.Token)
	}
}

// judge looks whether every law held, and tries what a program would that knows
// none. The first law that is broken ends it: what comes after would only be
// its consequences.
func (d *drill) judge(ctx context.Context) error {
	steps := []func(context.Context) error{
		func(ctx context.Context) error { return d.compare(ctx, "afterwards") }, d.checkJobs,
		d.tryStale, func(ctx context.Context) error { return d.compare(ctx, "after that") },
		d.sweepStale, func(ctx context.Context) error { return d.compare(ctx, "after the clean-up") },
	}
	for i, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
		if len(d.broken) > 0 && i%2 == 1 {
			return nil
		}
	}
	d.note(byDrill, d.file.Token, "read the published file again: sha256 %.8s…, the same", d.file.After)
	return nil
}

// compare reads the export again: neither pointer nor bytes may have changed.
func (d *drill) compare(ctx context.Context, when string) error {
	v, err := d.read(ctx)
	if err != nil {
		return err
	}
	d.checkFile(v)
	d.file.After = v.sha256
	switch {
	case v.attempt.Token < d.file.Token:
		d.breaks("L2, the pointer went back from token %d to token %d", d.file.Token, v.attempt.Token)
	case v.attempt.Token > d.file.Token:
		d.breaks("L4, the pointer moved on from token %d to token %d %s, without a job that asked for it", d.file.Token, v.attempt.Token, when)
	case v.sha256 != d.file.Before:
		d.breaks("L1, the bytes of token %d changed %s", d.file.Token, when)
	}
	return nil
}

// checkJobs is L2, L4, L5 and L6, as far as the rows tell: every job has its end
// and keeps it, at most one attempt of each was published, and tokens were
// published in order.
func (d *drill) checkJobs(context.Context) error {
	published := map[uuid.UUID]int{}
	var at time.Time
	for _, a := range d.attempts { // by token
		if v := a.Verdict; v == nil || *v != storage.AttemptPublished && *v != storage.AttemptSuperseded {
			continue
		}
		published[a.JobID]++
		if a.FinishedAt.Before(at) {
			d.breaks("L2, token %d was published before a lower one", a.Token)
		}
		at = *a.FinishedAt
	}
	for _, j := range d.jobs {
		n, name := published[j.ID], d.jobName(j.ID)
		switch {
		case n > 1:
			d.breaks("L4, %s was published %s", name, count.Of(n, "time"))
		case !j.State.Ended():
			d.breaks("L5, %s has no end: it is %s", name, j.State)
		case j.State == storage.JobDone && n == 0:
			d.breaks("L5, %s is done but nothing of it was published", name)
		case j.State != storage.JobDone && j.State != storage.JobSuperseded:
			d.breaks("L5, %s ended %s (%s)", name, j.State, deref(j.Error))
		}
	}
	for i, before := range d.ended {
		if j := d.jobs[i]; before.State.Ended() && (j.State != before.State || *j.AttemptID != *before.AttemptID || !j.FinishedAt.Equal(*before.FinishedAt)) {
			d.breaks("L6, an attempt that was stale changed %s, which had ended", d.jobName(j.ID))
		}
	}
	return nil
}

// tryStale asks the database for each attempt that lost to publish it all the
// same: that it was refused must not be the good manners of its worker.
func (d *drill) tryStale(ctx context.Context) error {
	for _, a := range d.attempts {
		if a.ID == d.currentID() {
			continue
		}
		if a.State != storage.AttemptPublished && a.State != storage.AttemptSuperseded {
			if err := d.tryPublish(ctx, a); err != nil {
				return err
			}
		}
		refusal, err := d.app.store.TryPointer(ctx, a.ExportID, a.ID, a.Token)
		if err != nil {
			return err
		}
		if refusal == "" {
			d.breaks("L2, PostgreSQL would let a bare UPDATE set the pointer to token %d: the trigger on exports is missing", a.Token)
			continue
		}
		d.refused(a, "trigger on exports", "tried to set the pointer to it by hand: refused, "+afterColon(refusal))
	}
	return nil
}

func (d *drill) currentID() uuid.UUID {
	for _, a := range d.attempts {
		if a.Token == d.file.Token {
			return a.ID
		}
	}
	return uuid.Nil
}

func (d *drill) tryPublish(ctx context.Context, a storage.Attempt) error {
	try, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err := d.app.store.Publish(try, a.ID)
	if errors.Is(err, storage.ErrUnknownOutcome) {
		return err
	}
	if err == nil {
		d.breaks("L2, PostgreSQL published token %d, although it was %s", a.Token, a.State)
		return nil
	}
	d.refused(a, "publish_attempt", fmt.Sprintf("asked to publish it all the same: refused, it is %s", a.State))
	return nil
}

// afterColon leaves out which export it was.
func afterColon(s string) string {
	if _, rest, found := strings.Cut(s, ": "); found {
		return rest
	}
	return s
}

func (d *drill) refused(a storage.Attempt, guard, what string) {
	d.add(drillEvent{At: d.now(), Who: byDrill, Token: a.Token, What: what, Guard: guard})
}

// sweepStale lets the clean-up take what the attempts that lost have left.
func (d *drill) sweepStale(ctx context.Context) error {
	res, err := d.sweep(ctx)
	if err != nil {
		return err
	}
	if err := d.look(ctx); err != nil {
		return err
	}
	for _, a := range d.attempts {
		if a.ID == d.currentID() {
			continue
		}
		there, err := d.app.files.Present(ctx, place(a))
		if err != nil {
			return err
		}
		if there || a.State != storage.AttemptDeleted {
			d.breaks("L7, the clean-up left the files of token %d, which is %s", a.Token, a.State)
		}
	}
	d.note(byDrill, 0, "cleaned up in its tenant: %d condemned, the files of %d deleted", res.Condemned, res.Deleted)
	return nil
}

// sweep runs the clean-up in the drill's tenant without any grace. Somebody
// else's run is waited for.
func (d *drill) sweep(ctx context.Context) (res storage.SweepResult, err error) {
	sw := storage.NewSweep(d.app.store, d.app.files, storage.SweepOptions{Tenant: d.id, Worker: "fenceline drill " + d.plan.name})
	busy := d.wait(ctx, d.patience(), "no other clean-up runs", func() (bool, error) {
		res, err = sw.Run(ctx)
		return !errors.Is(err, storage.ErrBusy), nil
	})
	if busy != nil {
		return res, busy
	}
	if err == nil && res.Failed > 0 {
		err = errors.New(res.Errors[0])
	}
	return res, err
}
