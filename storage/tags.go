package storage

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"
)

// Tags are words that a job was given. They are read as text, because behind a
// pooler no types of arrays can be asked for.
type Tags []string

// Scan reads PostgreSQL's text[].
func (t *Tags) Scan(src any) error {
	*t = nil
	switch v := src.(type) {
	case nil:
		return nil
	case string:
		return pgtype.NewMap().SQLScanner((*[]string)(t)).Scan(v)
	case []byte:
		return pgtype.NewMap().SQLScanner((*[]string)(t)).Scan(string(v))
	}
	return fmt.Errorf("read tags: %T is no text", src)
}
