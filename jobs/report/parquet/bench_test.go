package parquet_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// justRows is the target of a child that makes rows and writes none.
const justRows = "-"

// TestMain lets the test binary be the process whose CPU seconds and memory are
// measured, see [writeInChild].
func TestMain(m *testing.M) {
	target := os.Getenv("FENCELINE_PARQUET_WRITE")
	if target == "" {
		os.Exit(m.Run())
	}
	if err := writeChild(target, os.Getenv("FENCELINE_PARQUET_ROWS")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	fmt.Printf(`{"Sys": %d, "Mallocs": %d}`, stats.Sys, stats.Mallocs)
}

// writeChild writes to target as many orders as the first word of size says, with
// as much noise as the second does.
func writeChild(target, size string) error {
	var rows int64
	var noise int
	if _, err := fmt.Sscan(size, &rows, &noise); err != nil {
		return err
	}
	o := newOrders(noise)
	if target == justRows {
		for range rows {
			o.next()
		}
		return nil
	}
	f, err := os.Create(target)
	if err != nil {
		return err
	}
	if err := writeOrders(f, o, rows); err != nil {
		return err
	}
	return f.Close()
}

// usage is what a child process took.
type usage struct {
	CPU     float64 `json:"-"` // seconds
	RSS     float64 `json:"-"` // the most bytes
	Sys     float64 // bytes that Go's runtime took
	Mallocs float64
}

// writeInChild writes so many orders to a file, in a process of its own.
func writeInChild(t testing.TB, target string, rows, noise int) usage {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), "FENCELINE_PARQUET_WRITE="+target, fmt.Sprint("FENCELINE_PARQUET_ROWS=", rows, " ", noise))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("write %s: %v", target, err)
	}
	var u usage
	if err := json.Unmarshal(out, &u); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	u.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	u.RSS = float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) * 1024
	return u
}

// BenchmarkAgainstDuckDB writes two million orders with this package and with
// DuckDB on one thread, both as zstd.
//
// Ours is a process that makes the rows as PostgreSQL's text and writes them, less
// the CPU of one that only makes them: reading the text counts. DuckDB is measured
// three times: COPY alone from a table in its memory, which has its values in
// their types already (CPU/table); from a CSV file, where it reads text as we do
// (CPU/text); and from a Parquet file, where it never has the table, for the
// memory that it takes at the least (RSS/stream).
func BenchmarkAgainstDuckDB(b *testing.B) {
	const rows = 2_000_000
	dir := b.TempDir()
	ours, theirs, csv := filepath.Join(dir, "ours.parquet"), filepath.Join(dir, "theirs.parquet"), filepath.Join(dir, "orders.csv")
	to := " TO " + quote(theirs) + " (FORMAT parquet, COMPRESSION zstd)"
	for b.Loop() {
		made, wrote := writeInChild(b, justRows, rows, 0), writeInChild(b, ours, rows, 0)
		cpu := wrote.CPU - made.CPU
		table := duckdb(b, "PRAGMA threads=1", "CREATE TABLE t AS FROM "+quote(ours), "COPY t"+to)[2]
		stream := duckdb(b, "PRAGMA threads=1", "COPY (FROM "+quote(ours)+")"+to)[1]
		duckdb(b, "COPY (FROM "+quote(ours)+") TO "+quote(csv)+" (FORMAT csv)")
		text := duckdb(b, "PRAGMA threads=1", "COPY (FROM read_csv("+quote(csv)+", header=true, columns={'id': 'BIGINT', 'key': 'UUID', 'customer': 'VARCHAR', 'email': 'VARCHAR', "+
			"'amount': 'DECIMAL(12,2)', 'currency': 'VARCHAR', 'created_at': 'TIMESTAMPTZ', 'attributes': 'JSON', 'note': 'VARCHAR'}))"+to)[1]
		b.Logf("ours: %.2f s CPU besides %.2f s to make the rows, %.0f MB of memory, a file of %.0f MB", cpu, made.CPU, wrote.RSS/1e6, fileSize(b, ours)/1e6)
		b.Logf("DuckDB: %.2f s CPU and %.0f MB from a table, %.2f s from CSV, %.0f MB from Parquet, a file of %.0f MB", table.CPU, table.RSS/1e6, text.CPU, stream.RSS/1e6, fileSize(b, theirs)/1e6)
		b.ReportMetric(cpu/table.CPU, "CPU/table")
		b.ReportMetric(cpu/text.CPU, "CPU/text")
		b.ReportMetric(wrote.RSS/table.RSS, "RSS/table")
		b.ReportMetric(wrote.RSS/stream.RSS, "RSS/stream")
		b.ReportMetric(fileSize(b, ours)/fileSize(b, theirs), "size/DuckDB")
	}
	b.ReportMetric(0, "ns/op")
}

func quote(path string) string { return "'" + path + "'" }

func fileSize(t testing.TB, path string) float64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return float64(info.Size())
}

// BenchmarkRow makes and writes one row.
func BenchmarkRow(b *testing.B) {
	b.ReportAllocs()
	if err := writeOrders(io.Discard, newOrders(0), int64(b.N)); err != nil {
		b.Fatal(err)
	}
}
