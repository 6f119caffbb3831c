package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

func (c *cli) dispatchJobCmd(f *dispatchFlags) *cobra.Command {
	return &cobra.Command{
		Use: "job KIND [PAYLOAD]", Short: "Dispatch a job of any kind",
		Long: "PAYLOAD is a JSON object, or @FILE, or - for standard input; {} when it is left out.",
		Example: "  fenceline dispatch job welcome '{\"user\": 7}' --queue mail --tag signup --backoff exp:2s:10m\n" +
			"  fenceline dispatch job reindex @reindex.json --unique active --wait",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usageError("`%s` takes KIND and perhaps PAYLOAD; got %q", cmd.CommandPath(), args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			payload, err := json.RawMessage("{}"), error(nil)
			if len(args) == 2 {
				payload, err = readPayload(args[1])
			}
			if err != nil {
				return err
			}
			return c.dispatch(cmd.Context(), args[0], payload, *f)
		},
	}
}

// readPayload is the text itself, or what the file holds that it names.
func readPayload(text string) (json.RawMessage, error) {
	if name, ok := strings.CutPrefix(text, "@"); ok {
		return readInput(name)
	}
	if text == "-" {
		return readInput(text)
	}
	return json.RawMessage(text), nil
}

// mostInput bounds files of many jobs, in bytes.
const mostInput = 64 << 20

func readMany(name string) ([]byte, error) {
	var from io.Reader = os.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) {
			return nil, &coded{exitNotFound, err}
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	raw, err := io.ReadAll(io.LimitReader(from, mostInput+1))
	if err == nil && len(raw) > mostInput {
		return nil, invalid.New("FILE", name, "has more than %d bytes", mostInput)
	}
	return raw, err
}

func (c *cli) dispatchBulkCmd() *cobra.Command {
	return &cobra.Command{
		Use: "bulk FILE", Short: "Dispatch many jobs at once, all or none (JSON Lines; - for standard input)",
		Long: "Each line is {\"kind\": …, \"payload\": {…}} with the options of `dispatch job` as fields: tenant, queue, priority, tags,\n" +
			"delay, at, max_attempts, backoff, retry_until, retry_for, timeout, idempotency_key, unique, unique_key, debounce,\ndebounce_key.",
		Example: "  fenceline dispatch bulk jobs.jsonl\n  echo '{\"kind\": \"report\", \"payload\": {\"report\": \"stock\"}, \"priority\": 5}' | fenceline dispatch bulk -",
		Args:    exactly("FILE"), RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := readMany(args[0])
			if err != nil {
				return err
			}
			items, lines, err := parseLines(raw)
			if err != nil {
				return err
			}
			if c.conf.RemoteURL != "" {
				return c.dispatchManyRemote(cmd.Context(), "/api/v1/jobs/bulk", map[string]any{"jobs": rawLines(raw)})
			}
			return c.withApp(cmd.Context(), func(ctx context.Context, a *app) error {
				var receipts []jobs.Receipt
				err := a.store.Transaction(ctx, func(tx storage.Tx) (err error) {
					if receipts, err = a.dispatcher.DispatchAll(ctx, tx, items, jobs.RequestedBy("cli")); err != nil {
						return err
					}
					return a.askedMany(ctx, tx, "job.asked_many", receipts)
				})
				if err != nil {
					return nameLines(err, lines)
				}
				return c.printReceipts(nil, receipts)
			})
		},
	}
}

func rawLines(raw []byte) (list []json.RawMessage) {
	for line := range bytes.Lines(raw) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			list = append(list, json.RawMessage(line))
		}
	}
	return list
}

// parseLines reads a job from each line that is not blank, and answers the number of its line.
func parseLines(raw []byte) (items []jobs.Item, lines []int, err error) {
	refused, n := []error{}, 0
	for line := range bytes.Lines(raw) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		spec, err := jobs.ParseSpec(line, fmt.Sprintf("line %d", n))
		var item jobs.Item
		if err == nil {
			item, err = spec.Item()
			err = nameFields(err, func(field string) string { return fmt.Sprintf("line %d.%s", n, field) })
		}
		if err != nil {
			if refused = append(refused, err); len(refused) == 20 {
				break
			}
		}
		items, lines = append(items, item), append(lines, n)
	}
	return items, lines, invalid.Join(refused...)
}

// nameLines turns jobs[i] of a refusal into the line of the file.
func nameLines(err error, lines []int) error {
	return nameFields(err, func(field string) string {
		index, rest, found := strings.Cut(strings.TrimPrefix(field, "jobs["), "]")
		i, bad := strconv.Atoi(index)
		if !found || bad != nil || i >= len(lines) {
			return field
		}
		return fmt.Sprintf("line %d%s", lines[i], rest)
	})
}

func nameFields(err error, name func(string) string) error {
	var bad *invalid.Error
	if errors.As(err, &bad) {
		for i := range bad.Problems {
			bad.Problems[i].Field = name(bad.Problems[i].Field)
		}
	}
	return err
}

func (c *cli) dispatchChainCmd() *cobra.Command {
	return &cobra.Command{
		Use: "chain FILE", Short: "Dispatch jobs that run one after the other (JSON; - for standard input)",
		Long:    "FILE is {\"jobs\": [{\"kind\": …, \"payload\": {…}}, …]}, each with options as for `dispatch bulk`. When one fails, the rest are cancelled.",
		Example: "  fenceline dispatch chain nightly.json", Args: exactly("FILE"), RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := readMany(args[0])
			if err != nil {
				return err
			}
			_, items, err := jobs.ParseChain(raw)
			if err != nil {
				return err
			}
			if c.conf.RemoteURL != "" {
				return c.dispatchManyRemote(cmd.Context(), "/api/v1/chains", json.RawMessage(raw))
			}
			return c.withApp(cmd.Context(), func(ctx context.Context, a *app) error {
				var receipts []jobs.Receipt
				err := a.store.Transaction(ctx, func(tx storage.Tx) (err error) {
					if receipts, err = a.dispatcher.Chain(ctx, tx, items, jobs.RequestedBy("cli")); err != nil {
						return err
					}
					return a.askedMany(ctx, tx, "job.asked_chain", receipts)
				})
				if err != nil {
					return err
				}
				return c.printReceipts(nil, receipts)
			})
		},
	}
}

func (c *cli) dispatchBatchCmd() *cobra.Command {
	return &cobra.Command{
		Use: "batch FILE", Short: "Dispatch jobs that belong together (JSON; - for standard input)",
		Long: "FILE is {\"jobs\": […], \"chains\": [[…], …], \"then\": {…}, \"catch\": {…}, \"finally\": {…}}, with tenant, title, key and\n" +
			"allow_failures as you like; each job has options as for `dispatch bulk`. then is dispatched when every job is done, catch when the\n" +
			"first has failed, finally when all have ended. Without allow_failures the rest is cancelled when a job has failed.",
		Example: "  fenceline dispatch batch import.json", Args: exactly("FILE"), RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := readMany(args[0])
			if err != nil {
				return err
			}
			request, err := jobs.ParseBatch(raw)
			if err != nil {
				return err
			}
			if c.conf.RemoteURL != "" {
				return c.dispatchManyRemote(cmd.Context(), "/api/v1/batches", json.RawMessage(raw))
			}
			request.RequestedBy = "cli"
			return c.withApp(cmd.Context(), func(ctx context.Context, a *app) error {
				var batch storage.Batch
				var receipts []jobs.Receipt
				err := a.store.Transaction(ctx, func(tx storage.Tx) (err error) {
					if batch, receipts, err = a.dispatcher.Batch(ctx, tx, request); err != nil {
						return err
					}
					details := map[string]any{"jobs": len(receipts), "title": batch.Title}
					return didIn(ctx, a.store, tx, deed{"batch.asked", "batch", batch.ID.String(), batch.Tenant, details})
				})
				if err != nil {
					return err
				}
				return c.printReceipts(&batch, receipts)
			})
		},
	}
}

// dispatched is one of many jobs that were asked for, as the API answers it too.
type dispatched struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Reused bool   `json:"reused,omitempty"`
}

// shownReceipts is how many of many a person sees.
const shownReceipts = 20

func (c *cli) printReceipts(batch *storage.Batch, receipts []jobs.Receipt) error {
	list := make([]dispatched, len(receipts))
	for i, r := range receipts {
		list[i] = dispatched{r.Job.ID.String(), r.Job.Kind, r.Reused}
	}
	answer := map[string]any{"jobs": list}
	if batch != nil {
		answer["batch"] = batch
	}
	return c.print(answer, func(w io.Writer) { printDispatched(w, batch, list) })
}

func printDispatched(w io.Writer, batch *storage.Batch, list []dispatched) {
	if batch != nil {
		fmt.Fprintf(w, "batch %s with %s\nwatch it:  fenceline batch show %s\n", batch.ID, count.Of(len(list), "job"), batch.ID)
		return
	}
	for _, d := range list[:min(len(list), shownReceipts)] {
		again := ""
		if d.Reused {
			again = " (it was there already)"
		}
		fmt.Fprintf(w, "job %s %s%s\n", d.ID, d.Kind, again)
	}
	if n := len(list) - shownReceipts; n > 0 {
		fmt.Fprintf(w, "and %d more\n", n)
	}
}

// dispatchManyRemote sends what was read and checked to a Fenceline elsewhere.
func (c *cli) dispatchManyRemote(ctx context.Context, path string, body any) error {
	r, err := newRemote(c.conf)
	if err != nil {
		return err
	}
	var answer struct {
		Batch *storage.Batch `json:"batch,omitempty"`
		Jobs  []dispatched   `json:"jobs"`
	}
	if err := r.call(ctx, http.MethodPost, path, body, nil, into(&answer)); err != nil {
		return err
	}
	return c.print(answer, func(w io.Writer) { printDispatched(w, answer.Batch, answer.Jobs) })
}
