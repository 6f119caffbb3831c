package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// remote speaks to a Fenceline elsewhere, over its API with a token.
type remote struct {
	base, token string
	client      *http.Client
}

func newRemote(conf Config) (*remote, error) {
	if conf.RemoteToken == "" {
		return nil, usageError("FENCELINE_URL is set but FENCELINE_TOKEN is not: make a token there with `fenceline token create NAME`")
	}
	return &remote{base: strings.TrimSuffix(conf.RemoteURL, "/"), token: conf.RemoteToken, client: &http.Client{}}, nil
}

// problem is what the API answers when it refuses (RFC 9457).
type problem struct {
	Title  string            `json:"title"`
	Detail string            `json:"detail"`
	Status int               `json:"status"`
	Errors []invalid.Problem `json:"errors"`
}

// call sends a request and hands an answer of the 200s to read.
func (r *remote) call(ctx context.Context, method, path string, body any, header http.Header, read func(*http.Response) error) error {
	var payload io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode the request: %w", err)
		}
		payload = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, payload)
	if err != nil {
		return fmt.Errorf("FENCELINE_URL: %w", err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	resp, err := r.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", r.base, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return refusal(resp)
	}
	return read(resp)
}

// refusal turns a problem into an error with the exit code that the same
// mistake has without a network.
func refusal(resp *http.Response) error {
	var p problem
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if json.Unmarshal(raw, &p) != nil || p.Title == "" {
		return fmt.Errorf("the server answered %s", resp.Status)
	}
	if len(p.Errors) > 0 {
		return &invalid.Error{Problems: p.Errors}
	}
	err := fmt.Errorf("%s: %s", p.Title, p.Detail)
	switch resp.StatusCode {
	case http.StatusNotFound:
		return &coded{exitNotFound, err}
	case http.StatusConflict, http.StatusGone, http.StatusUnprocessableEntity, http.StatusForbidden:
		return &coded{exitRefused, err}
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return &coded{exitBusy, err}
	}
	return err
}

func into(v any) func(*http.Response) error {
	return func(resp *http.Response) error {
		if err := json.NewDecoder(resp.Body).Decode(v); err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		return nil
	}
}

type remoteJob struct {
	storage.Job
	Reused   bool              `json:"reused"`
	Attempts []storage.Attempt `json:"attempt_list"`
}

// dispatchRemote is dispatch over the API.
func (c *cli) dispatchRemote(ctx context.Context, kind string, payload json.RawMessage, f dispatchFlags) error {
	r, err := newRemote(c.conf)
	if err != nil {
		return err
	}
	header := http.Header{}
	spec := f.spec
	spec.Kind, spec.Payload, spec.IdempotencyKey = kind, payload, ""
	if f.spec.IdempotencyKey != "" {
		header.Set("Idempotency-Key", f.spec.IdempotencyKey)
	}
	if !json.Valid(payload) {
		return invalid.New("payload", "", "must be a JSON object")
	}
	var job remoteJob
	if err := r.call(ctx, http.MethodPost, "/api/v1/jobs", spec, header, into(&job)); err != nil {
		return err
	}
	if job.Plain() && f.output != "" {
		return usageError("job %s of kind %s is dispatched, but it publishes no file for -o", job.ID, kind)
	}
	if !f.wait && f.output == "" {
		return c.print(map[string]any{"job": job.Job, "reused": job.Reused}, func(w io.Writer) { fmt.Fprintf(w, "job %s %s\n", job.ID, job.State) })
	}
	if err := c.watchRemote(ctx, r, &job); err != nil {
		return err
	}
	if err := notDone(job.Job); err != nil {
		return err
	}
	if job.Plain() {
		return c.printResult(job.Job)
	}
	return c.deliverRemote(ctx, r, job, f.output)
}

func (c *cli) watchRemote(ctx context.Context, r *remote, job *remoteJob) error {
	bar := c.newBar()
	defer bar.end()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := r.call(ctx, http.MethodGet, "/api/v1/jobs/"+job.ID.String(), nil, nil, into(job)); err != nil {
			return err
		}
		if job.State.Ended() {
			return nil
		}
		var working *storage.Attempt
		for i, a := range job.Attempts {
			if job.AttemptID != nil && a.ID == *job.AttemptID {
				working = &job.Attempts[i]
			}
		}
		bar.show(job.Job, working)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (c *cli) deliverRemote(ctx context.Context, r *remote, job remoteJob, output string) error {
	var export struct {
		Files []storage.File `json:"files"`
	}
	attempt := job.AttemptID.String()
	path := "/api/v1/exports/" + job.ExportID.String()
	if err := r.call(ctx, http.MethodGet, path, nil, nil, into(&export)); err != nil {
		return err
	}
	saved, err := placesFor(output, export.Files)
	if err != nil {
		return err
	}
	for i, to := range saved {
		file := path + "/files/" + url.PathEscape(export.Files[i].Name) + "?attempt=" + attempt
		err := r.call(ctx, http.MethodGet, file, nil, nil, func(resp *http.Response) error {
			want := strings.Trim(resp.Header.Get("ETag"), `"`)
			return c.saveStream(resp.Body, export.Files[i].Name, want, to)
		})
		if err != nil {
			return err
		}
	}
	if output == "-" {
		return nil
	}
	return c.print(map[string]any{"job": job.Job, "files": export.Files, "saved": saved}, func(w io.Writer) {
		for _, f := range export.Files {
			fmt.Fprintf(w, "published %s: %s, %s, sha256 %s\n", f.Name, count.Of(f.Rows, "row"), count.Of(f.Size, "byte"), f.SHA256)
		}
		printSaved(w, saved)
	})
}
