package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// cleanUp removes what the drill has made, whatever became of it; also after
// Ctrl-C, for which ctx does not count. What it cannot remove it remembers.
func (d *drill) cleanUp(ctx context.Context) {
	if ctx.Err() != nil {
		fmt.Fprintln(d.cli.err, "drill: interrupted, removing what it has made; once more Ctrl-C leaves it there")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	exports, err := d.deleteExports(ctx)
	d.leaves("its export", err)
	for _, w := range d.workers {
		d.leaves(w.label, w.stop(10*time.Second))
	}
	for _, id := range exports {
		d.leaves("files of export "+id.String(), d.removeFiles(ctx, id))
	}
	d.leaves("jobs", d.endJobs(ctx))
	d.leaves("keys in Redis", d.removeKeys(ctx, exports))
	if len(d.left) == 0 {
		d.note(byDrill, 0, "removed its export, its files, its workers and its keys in Redis; rows stay, marked as deleted")
	}
}

func (d *drill) leaves(what string, err error) {
	if err != nil {
		d.left = append(d.left, fmt.Sprintf("%s (%v)", what, err))
	}
}

// deleteExports finds them by their tenant: when the drill was interrupted it may
// not have heard of its own dispatch.
func (d *drill) deleteExports(ctx context.Context) ([]uuid.UUID, error) {
	page, err := d.app.store.Exports(ctx, d.scope(), storage.ExportFilter{})
	if err != nil {
		return nil, err
	}
	var ids []uuid.UUID
	for _, e := range page.Items {
		ids = append(ids, e.ID)
		err = errors.Join(err, d.app.store.DeleteExport(ctx, d.scope(), e.ID))
	}
	return ids, err
}

// removeFiles lets the clean-up take every file of an export that was deleted,
// and removes the folder, which is empty then.
func (d *drill) removeFiles(ctx context.Context, export uuid.UUID) error {
	if _, err := d.sweep(ctx); err != nil {
		return err
	}
	attempts, err := d.app.store.Attempts(ctx, export, 200)
	if err != nil {
		return err
	}
	for _, a := range attempts {
		if a.State != storage.AttemptDeleted {
			return fmt.Errorf("token %d is still %s; the next clean-up takes it", a.Token, a.State)
		}
	}
	return d.app.files.RemoveFolder(ctx, export)
}

// endJobs gives those jobs their end whose worker could not confirm that they
// are cancelled.
func (d *drill) endJobs(ctx context.Context) error {
	page, err := d.app.store.Jobs(ctx, d.scope(), storage.JobFilter{})
	if err != nil {
		return err
	}
	for _, j := range page.Items {
		if j.State.Ended() {
			continue
		}
		if _, err := d.app.store.HandOnLost(ctx, d.app.conf.Lease, 500); err != nil { // as every relay does every second
			return err
		}
		if j, err = d.app.store.Job(ctx, d.scope(), j.ID); err != nil {
			return err
		}
		if !j.State.Ended() {
			return fmt.Errorf("job %s is %s; the next relay ends it", j.ID, j.State)
		}
	}
	return nil
}

// removeKeys comes last: until every job has its end, a relay may ring for it.
func (d *drill) removeKeys(ctx context.Context, exports []uuid.UUID) error {
	_, err := d.app.redis.ForgetQueue(ctx, d.id)
	for _, id := range exports {
		err = errors.Join(err, d.app.redis.ForgetLease(ctx, id.String()))
	}
	host, hostErr := os.Hostname()
	var pids []int
	for _, w := range d.workers {
		pids = append(pids, w.pid())
	}
	return errors.Join(err, hostErr, d.app.redis.ForgetServers(ctx, host, pids))
}
