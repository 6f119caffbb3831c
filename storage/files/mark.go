package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/google/uuid"
)

// Mark is what lies at the root of a store: whose files these are, and what the
// store remembers of the database that names them. A database that was restored,
// or another one, does not fit to what is remembered here.
type Mark struct {
	Installation uuid.UUID `json:"installation"`
	About        string    `json:"about"`
	// Epoch and Number are those of the database; zero in a mark that an older version made.
	Epoch  uuid.UUID `json:"epoch,omitzero"`
	Number int64     `json:"number,omitzero"`
	// Fingerprint is by what the database knew itself, Database its name, for people.
	Fingerprint string `json:"fingerprint,omitzero"`
	Database    string `json:"database,omitzero"`
	// Beat counts how often the mark was written since the installation began.
	Beat int64 `json:"beat,omitzero"`
	// Token is the highest that had been given out by then.
	Token int64     `json:"token,omitzero"`
	At    time.Time `json:"at,omitzero"` // by the database's clock
}

// aboutMark is for people who find the file.
const aboutMark = "Fenceline keeps the files of exports here. Do not edit."

func (m Mark) encode() ([]byte, error) {
	m.About = aboutMark
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", markerName, err)
	}
	return append(raw, '\n'), nil
}

func decodeMark(raw []byte) (m Mark, err error) {
	return m, json.Unmarshal(raw, &m)
}

// ReadMark is [Store.ReadMark].
func (l *Local) ReadMark(context.Context) (Mark, error) {
	raw, err := l.root.ReadFile(markerName)
	if errors.Is(err, fs.ErrNotExist) {
		return Mark{}, fmt.Errorf("%w: %s of the files folder %s", ErrNotFound, markerName, l.dir)
	}
	if err != nil {
		return Mark{}, fmt.Errorf("read %s of the files folder: %w", markerName, err)
	}
	m, err := decodeMark(raw)
	if err != nil {
		return Mark{}, fmt.Errorf("read %s of the files folder %s: %w", markerName, l.dir, err)
	}
	return m, nil
}

// WriteMark is [Store.WriteMark]: a new file, synced, is renamed over the old one.
func (l *Local) WriteMark(ctx context.Context, m Mark) error {
	if err := l.checkMarker(m.Installation); err != nil {
		return err
	}
	raw, err := m.encode()
	if err != nil {
		return err
	}
	temp := markerTemp + uuid.NewString()
	if err := l.put(temp, string(raw)); err != nil {
		_ = l.root.Remove(temp)
		return fmt.Errorf("write %s of the files folder: %w", markerName, err)
	}
	if err := l.root.Rename(temp, markerName); err != nil {
		_ = l.root.Remove(temp)
		return fmt.Errorf("write %s of the files folder: %w", markerName, err)
	}
	return l.syncDir(".")
}

func (l *Local) checkMarker(installation uuid.UUID) error {
	m, err := l.ReadMark(context.Background())
	if errors.Is(err, ErrNotFound) {
		return l.mark(installation)
	}
	if err != nil {
		return err
	}
	if m.Installation != installation {
		return fmt.Errorf("%w: %s is marked for installation %s, the database is installation %s; set FILES_DIR to the right folder",
			ErrOtherInstallation, l.dir, m.Installation, installation)
	}
	return nil
}
