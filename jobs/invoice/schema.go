package invoice

import (
	"bytes"
	_ "embed"
)

//go:embed schema.json
var schema []byte

// Schema is the JSON Schema (draft 2020-12) of the documents that [Parse] takes:
// every field with its title and meaning. What it refuses Parse refuses too,
// except null for a field that may be left out; Parse also checks what takes
// arithmetic. The caller owns the copy.
func Schema() []byte { return bytes.Clone(schema) }
