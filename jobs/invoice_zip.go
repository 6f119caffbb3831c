package jobs

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// BatchZIPName is the kind of the jobs that pack the files of a batch.
const BatchZIPName = "batch.zip"

// zipPage is how many jobs are looked up at once.
const zipPage = 500

// BatchZIPKind packs everything that the jobs of a batch have published into one
// ZIP with a manifest: entry, job, size, SHA-256. A batch that has jobs at work,
// or failed ones, is refused: a ZIP that lacks documents must not look whole.
func BatchZIPKind(store *storage.Store) Kind {
	return Kind{Name: BatchZIPName, Version: 1, Decode: func(in Payload) (Task, error) {
		var p struct {
			Batch string `json:"batch"`
		}
		if err := strictJSON(in.Body, &p, "payload"); err != nil {
			return Task{}, err
		}
		id, err := uuid.Parse(p.Batch)
		if err != nil {
			return Task{}, invalid.New("batch", p.Batch, "must be the id of a batch")
		}
		z := batchZIP{store: store, tenant: in.Tenant, id: id}
		return Task{Key: id.String(), Title: "Files of batch " + id.String(), Check: func(ctx context.Context) error { _, err := z.whole(ctx); return err }, Render: z.render}, nil
	}}
}

type batchZIP struct {
	store  *storage.Store
	tenant string
	id     uuid.UUID
}

// whole answers the batch when all of it is done.
func (z batchZIP) whole(ctx context.Context) (storage.Batch, error) {
	b, err := z.store.Batch(ctx, storage.Scope{Tenant: z.tenant}, z.id)
	if err != nil {
		return b, err
	}
	c, err := z.store.CountBatch(ctx, z.id)
	if err != nil {
		return b, err
	}
	switch left := c.Total - c.States[storage.JobDone] - c.States[storage.JobSuperseded]; {
	case c.Total == 0:
		return b, invalid.New("batch", z.id.String(), "has no jobs")
	case left > 0:
		return b, invalid.New("batch", z.id.String(), "is not complete: %d of %d jobs have published nothing; `fenceline batch show` says why", left, c.Total)
	}
	return b, nil
}

func (z batchZIP) render(ctx context.Context, run *Run) error {
	b, err := z.whole(ctx)
	if err != nil {
		return err
	}
	view, err := run.Snapshot(ctx) // for the time: what was published until then is in it
	if err != nil {
		return err
	}
	view.Close()
	out, err := run.Create(safeName(b.Key)+".zip", "zip", "application/zip")
	if err != nil {
		return err
	}
	defer out.Close()
	p := newPacker(out)
	var after uuid.UUID
	for {
		page, err := z.store.BatchFiles(ctx, z.id, after, zipPage)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, f := range page {
			if err := p.add(run, f); err != nil {
				return err
			}
			run.Progress(p.entries)
		}
		after = page[len(page)-1].Job
	}
	if err := p.close(); err != nil {
		return err
	}
	return out.Commit(p.entries)
}

// safeName makes a file's name of any text.
func safeName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '-'
		}
		return r
	}, s)
	if s = strings.Trim(s, ". "); s == "" || len(s) > 190 {
		return "batch"
	}
	return s
}

// packer writes a ZIP. Entries have no times of their own, so that the same
// files give the same bytes.
type packer struct {
	buffer   *bufio.Writer
	zip      *zip.Writer
	names    map[string]bool // lower case: file systems differ
	manifest strings.Builder
	lines    *csv.Writer
	entries  int64
}

func newPacker(w io.Writer) *packer {
	p := &packer{buffer: bufio.NewWriterSize(w, 64<<10), names: map[string]bool{"manifest.csv": true}}
	p.zip = zip.NewWriter(p.buffer)
	p.lines = csv.NewWriter(&p.manifest)
	_ = p.lines.Write([]string{"entry", "title", "job", "bytes", "sha256"}) // into memory
	return p
}

// unique is the file's name, with (2) and so on where it is taken.
func (p *packer) unique(name string) string {
	ext := path.Ext(name)
	candidate := name
	for n := 2; p.names[strings.ToLower(candidate)]; n++ {
		candidate = fmt.Sprintf("%s (%d)%s", strings.TrimSuffix(name, ext), n, ext)
	}
	p.names[strings.ToLower(candidate)] = true
	return candidate
}

func (p *packer) create(name string) (io.Writer, error) {
	method := zip.Deflate
	switch path.Ext(name) {
	case ".pdf", ".zip", ".gz", ".zst", ".xlsx", ".parquet": // compressed inside
		method = zip.Store
	}
	return p.zip.CreateHeader(&zip.FileHeader{Name: name, Method: method, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)})
}

func (p *packer) add(run *Run, f storage.BatchFile) error {
	src, err := run.files.Open(run.ctx, files.Place{Export: f.Export, Token: f.Token, Attempt: f.Attempt}, f.Object)
	if err != nil {
		return fmt.Errorf("pack %s of job %s: %w", f.Name, f.Job, err)
	}
	defer src.Close()
	name := p.unique(safeName(f.Name))
	w, err := p.create(name)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(w, h), src)
	if err == nil && !bytes.Equal(h.Sum(nil), f.SHA256) {
		err = errors.New("it is not what was published: it was damaged or cut")
	}
	if err != nil {
		return fmt.Errorf("pack %s of job %s: %w", f.Name, f.Job, err)
	}
	p.entries++
	return p.lines.Write([]string{name, f.Title, f.Job.String(), strconv.FormatInt(f.Size, 10), hex.EncodeToString(f.SHA256)})
}

func (p *packer) close() error {
	p.lines.Flush()
	w, err := p.create("manifest.csv")
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, p.manifest.String()); err != nil {
		return err
	}
	if err := p.zip.Close(); err != nil {
		return err
	}
	return p.buffer.Flush()
}
