package jobs

import (
	"bufio"
	"encoding/csv"
	"io"
	"strconv"
)

// manifest is the list of what became of each row of an invoice run.
type manifest struct {
	buffer *bufio.Writer
	csv    *csv.Writer
	rows   int64
}

func newManifest(w io.Writer) (*manifest, error) {
	m := &manifest{buffer: bufio.NewWriterSize(w, 64<<10)}
	m.csv = csv.NewWriter(m.buffer)
	return m, m.csv.Write([]string{"row", "customer", "number", "outcome", "reason"})
}

func (m *manifest) add(r row) error {
	m.rows++
	outcome, reason := "issued", ""
	switch {
	case r.refused != nil:
		outcome, reason = "refused", r.refused.Error()
	case !r.issued.New:
		outcome = "issued before"
	}
	return m.csv.Write([]string{strconv.FormatInt(m.rows, 10), r.customer, r.issued.Number, outcome, reason})
}

func (m *manifest) close() error {
	m.csv.Flush()
	if err := m.csv.Error(); err != nil {
		return err
	}
	return m.buffer.Flush()
}
