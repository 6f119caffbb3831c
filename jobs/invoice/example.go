package invoice

import (
	"bytes"
	_ "embed"
)

//go:embed example.json
var example []byte

// Example is a complete document to try things with; the caller owns the copy.
func Example() []byte { return bytes.Clone(example) }
