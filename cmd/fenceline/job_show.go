package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// shownErrors is how many errors of a job are shown, the newest first.
const shownErrors = 20

// shownPayload is a job's payload as people and programs may see it.
func shownPayload(j storage.Job) json.RawMessage { return j.Payload }

func (c *cli) showJob(ctx context.Context, store *storage.Store, text string) error {
	id, err := parseID("JOB", text)
	if err != nil {
		return err
	}
	job, err := store.Job(ctx, everything, id)
	if err != nil {
		return err
	}
	attempts, err := store.JobAttempts(ctx, id, 100)
	if err != nil {
		return err
	}
	failures, err := store.JobErrors(ctx, id, shownErrors)
	if err != nil {
		return err
	}
	job.Payload = shownPayload(job)
	return c.print(map[string]any{"job": job, "attempts": attempts, "errors": failures}, func(w io.Writer) {
		printJob(w, job)
		for _, a := range attempts {
			if job.AttemptID != nil && a.ID == *job.AttemptID {
				printWarnings(w, a.Warnings)
			}
		}
		fmt.Fprintln(w)
		if !job.Plain() {
			attemptTable(w, attempts)
		}
		printErrors(w, job, failures)
	})
}

func printJob(w io.Writer, job storage.Job) {
	fmt.Fprintf(w, "job\t%s\nstate\t%s\ntitle\t%s\nkind\t%s\ntenant\t%s\nqueue\t%s\n", job.ID, stateText(job), inCellWhole(job.Title), job.Kind, job.Tenant, job.Queue)
	if !job.Plain() {
		fmt.Fprintf(w, "export\t%s\n", job.ExportID)
	}
	fmt.Fprintf(w, "created\t%s\nfailures\t%d of %d\ncrashes\t%d\nreleases\t%d\n", stamp(&job.CreatedAt), job.Failures, job.MaxAttempts, job.Crashes, job.Releases)
	line := func(name string, yes bool, value any) {
		if yes {
			fmt.Fprintf(w, "%s\t%s\n", name, inCellWhole(fmt.Sprint(value)))
		}
	}
	line("priority", job.Priority != 0, job.Priority)
	line("tags", len(job.Tags) > 0, strings.Join(job.Tags, ", "))
	line("batch", job.BatchID != nil, valueOf(job.BatchID))
	line("chain", job.ChainID != nil, valueOf(job.ChainID))
	line("after", job.AfterJob != nil, valueOf(job.AfterJob))
	if job.UniqueKey != nil {
		line("unique", true, uniqueText(job))
	}
	line("progress", plainProgress(job) != "", plainProgress(job))
	line("result", job.Result != nil, string(job.Result))
	line("payload", len(job.Payload) > 0, compactPayload(shownPayload(job)))
	line("error", job.Error != nil, deref(job.Error))
}

// stateText is the state with what a waiting job waits for.
func stateText(job storage.Job) string {
	switch {
	case job.State != storage.JobQueued || job.WaitingFor == nil:
		return string(job.State)
	case job.DueAt.After(time.Now()):
		return fmt.Sprintf("%s, waiting for %s, due %s", job.State, *job.WaitingFor, stamp(&job.DueAt))
	}
	return fmt.Sprintf("%s, waiting for %s", job.State, *job.WaitingFor)
}

func uniqueText(job storage.Job) string {
	switch how := deref(job.UniqueWhile); how {
	case "pending":
		return "until it begins, as " + *job.UniqueKey
	case "active":
		return "until it ends, as " + *job.UniqueKey
	}
	return "for a time, as " + *job.UniqueKey
}

func valueOf[T any](v *T) any {
	if v == nil {
		return ""
	}
	return *v
}

// mostShownPayload bounds a payload on a terminal, in bytes; --json has it whole.
const mostShownPayload = 2000

func compactPayload(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	if b.Len() > mostShownPayload {
		return string(bytes.ToValidUTF8(b.Bytes()[:mostShownPayload], nil)) + "… (--json shows it whole)"
	}
	return b.String()
}

// printErrors lists what went wrong; the stack only of the newest that has one.
func printErrors(w io.Writer, job storage.Job, list []storage.JobError) {
	if len(list) == 0 || !job.Plain() {
		return
	}
	fmt.Fprintln(w, "ATTEMPT\tAT\tWORKER\tWHY\tERROR")
	for _, e := range list {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", e.Attempt, stamp(&e.At), e.Worker, e.Reason, inCellWhole(e.Error))
	}
	for _, e := range list {
		if e.Stack != nil {
			fmt.Fprintf(w, "\nstack of attempt %d\n", e.Attempt)
			for line := range strings.SplitSeq(*e.Stack, "\n") {
				fmt.Fprintln(w, inCellWhole(strings.ReplaceAll(line, "\t", "    ")))
			}
			return
		}
	}
}
