package parquet_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// answer is what DuckDB says to a statement.
type answer struct {
	Columns, Types []string
	Rows           [][]*string
	CPU            float64 // seconds
	RSS            float64 // the most bytes that the process had so far
}

// duckdb runs statements in a new DuckDB. Every value of a result must be text.
func duckdb(t testing.TB, statements ...string) []answer {
	t.Helper()
	in, err := json.Marshal(statements)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join("testdata", "duckdb.cjs"), duckdbModules(t))
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, stderr.Bytes())
	}
	var answers []answer
	if err := json.Unmarshal(out, &answers); err != nil {
		t.Fatalf("%v in the answer %.2000s", err, out)
	}
	return answers
}

// duckdbModules is the node_modules folder that holds DuckDB: the one that
// FENCELINE_DUCKDB names, or the one in the repository's bin.
func duckdbModules(t testing.TB) string {
	t.Helper()
	modules := os.Getenv("FENCELINE_DUCKDB")
	if modules == "" {
		var err error
		if modules, err = filepath.Abs(filepath.Join("..", "..", "..", "bin", "duckdb", "node_modules")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(modules, "@duckdb", "node-api")); err != nil {
		t.Fatalf("DuckDB is missing, with which the files are checked. In the repository's folder run: "+
			"npm install --prefix bin/duckdb @duckdb/node-api, or name its node_modules in FENCELINE_DUCKDB (%v)", err)
	}
	return modules
}
