package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage/files"
)

// manifestVersion is that of the manifests that are written now.
const manifestVersion = 1

// maxManifest bounds what is read of a manifest, in bytes.
const maxManifest = 16 << 20

// ErrNoManifest means that an attempt has none: an older version wrote its files,
// or it never finished them.
var ErrNoManifest = errors.New("there is no manifest")

// Manifest tells beside the files of an attempt what they are, so that the store
// alone can say what it holds. It is the last file that an attempt writes. The
// database decides what counts; a manifest only proves that an attempt was complete.
type Manifest struct {
	Version      int            `json:"version"`
	Installation uuid.UUID      `json:"installation"`
	Epoch        uuid.UUID      `json:"epoch"`
	Export       uuid.UUID      `json:"export"`
	Tenant       string         `json:"tenant"`
	Kind         string         `json:"kind"`
	Key          string         `json:"key"`
	Title        string         `json:"title"`
	Job          uuid.UUID      `json:"job"`
	Attempt      uuid.UUID      `json:"attempt"`
	Token        int64          `json:"token"`
	Rows         int64          `json:"rows"`
	DataAsOf     time.Time      `json:"data_as_of"`
	Files        []ManifestFile `json:"files"`
}

// ManifestFile is one file in a [Manifest], as the database records it too.
type ManifestFile struct {
	Ordinal   int    `json:"ordinal"`
	Name      string `json:"name"`
	Object    string `json:"object"`
	Format    string `json:"format"`
	MediaType string `json:"media_type"`
	Size      int64  `json:"size"`
	SHA256    string `json:"sha256"`
	Rows      int64  `json:"rows"`
}

func recordsOf(list []File) []ManifestFile {
	records := make([]ManifestFile, len(list))
	for i, f := range list {
		records[i] = ManifestFile{i + 1, f.Name, f.Object, f.Format, f.MediaType, f.Size, f.SHA256.String(), f.Rows}
	}
	return records
}

// WriteManifest writes the manifest of an attempt whose files are all there. It
// may go on beside [Store.Seal]; both come before [Store.Publish].
func (s *Store) WriteManifest(ctx context.Context, f files.Store, attempt uuid.UUID, sealed Sealed) error {
	m := Manifest{Version: manifestVersion, Attempt: attempt, Rows: sealed.Rows, Files: recordsOf(sealed.Files)}
	err := s.pool.QueryRow(ctx, `SELECT i.id, p.id, e.id, e.tenant, e.kind, e.key, e.title, a.job_id, a.token, a.started_at
		FROM fenceline.attempts a JOIN fenceline.exports e ON e.id = a.export_id CROSS JOIN fenceline.installation i CROSS JOIN fenceline.epoch p WHERE a.id = $1`, attempt).
		Scan(&m.Installation, &m.Epoch, &m.Export, &m.Tenant, &m.Kind, &m.Key, &m.Title, &m.Job, &m.Token, &m.DataAsOf)
	if err != nil {
		return fmt.Errorf("write the manifest of attempt %s: %w", attempt, err)
	}
	if !sealed.DataAsOf.IsZero() {
		m.DataAsOf = sealed.DataAsOf
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write the manifest of attempt %s: %w", attempt, err)
	}
	w, err := f.Create(ctx, m.place(), files.ManifestName)
	if err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	defer w.Abort()
	if _, err := w.Write(raw); err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	if _, err := w.Commit(); err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	return nil
}

func (m Manifest) place() files.Place {
	return files.Place{Export: m.Export, Token: m.Token, Attempt: m.Attempt}
}

// ReadManifest reads the manifest at a place and fails with [ErrNoManifest] where
// there is none. One that is of another place, or that this version cannot read,
// is an error too.
func ReadManifest(ctx context.Context, f files.Store, p files.Place) (Manifest, error) {
	var m Manifest
	file, err := f.Open(ctx, p, files.ManifestName)
	if errors.Is(err, files.ErrNotFound) {
		return m, ErrNoManifest
	}
	if err != nil {
		return m, fmt.Errorf("read the manifest of %s: %w", p, err)
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxManifest))
	if err != nil {
		return m, fmt.Errorf("read the manifest of %s: %w", p, err)
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, provesNothing{fmt.Errorf("read the manifest of %s: %w", p, err)}
	}
	if m.Version != manifestVersion {
		return m, provesNothing{fmt.Errorf("the manifest of %s has version %d, this program reads %d", p, m.Version, manifestVersion)}
	}
	if m.place() != p || len(m.Files) == 0 {
		return m, provesNothing{fmt.Errorf("the manifest of %s is of %s with %d files", p, m.place(), len(m.Files))}
	}
	return m, nil
}

// provesNothing is what is wrong with a manifest that the store has given in full. Any other error says that it could
// not be read this time.
type provesNothing struct{ error }

// list are the files of a manifest as the database has them.
func (m Manifest) list() ([]File, error) {
	list := make([]File, len(m.Files))
	for i, f := range m.Files {
		list[i] = File{AttemptID: m.Attempt, Ordinal: f.Ordinal, Name: f.Name, Object: f.Object, Format: f.Format, MediaType: f.MediaType, Size: f.Size, Rows: f.Rows}
		if err := list[i].SHA256.UnmarshalText([]byte(f.SHA256)); err != nil || len(list[i].SHA256) != 32 || f.Ordinal != i+1 {
			return nil, fmt.Errorf("the manifest of %s does not list its files as it should", m.place())
		}
	}
	return list, nil
}
