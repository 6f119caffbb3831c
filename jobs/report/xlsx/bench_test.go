package xlsx

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// benchRows is the size of the file in the benchmarks.
const benchRows = 1_000_000

// BenchmarkWriters writes the same million rows by this package, by excelize's
// StreamWriter and by libxlsxwriter (in C, constant memory; it needs cc and
// libxlsxwriter-dev), each in a process of its own, and reports the others' needs
// as multiples of ours. It takes turns and counts the better of two, because
// neighbours on the machine make CPU seconds longer.
func BenchmarkWriters(b *testing.B) {
	program := buildC(b)
	folder := b.TempDir()
	path := func(name string) string { return filepath.Join(folder, name+".xlsx") }
	size := func(name string) float64 { return float64(sizeOf(b, path(name))) }
	for b.Loop() {
		var ours, theirs, c [2]usage
		for k := range ours {
			ours[k] = run(b.Context(), b, "ours", benchRows, path("ours"), level)
			theirs[k] = run(b.Context(), b, "excelize", benchRows, path("excelize"), 0)
			measure(b, exec.CommandContext(b.Context(), program, path("c"), fmt.Sprint(benchRows)), &c[k])
		}
		best := func(of [2]usage) float64 { return min(of[0].CPU, of[1].CPU).Seconds() }
		b.ReportMetric(benchRows/min(ours[0].Wall, ours[1].Wall).Seconds(), "rows/s")
		b.ReportMetric(best(ours), "cpu-s")
		b.ReportMetric(float64(max(ours[0].Peak, ours[1].Peak))/1e6, "peak-MB")
		b.ReportMetric(size("ours")/1e6, "file-MB")
		b.ReportMetric(benchRows/min(theirs[0].Wall, theirs[1].Wall).Seconds(), "excelize-rows/s")
		b.ReportMetric(best(theirs), "excelize-cpu-s")
		b.ReportMetric(best(theirs)/best(ours), "excelize-cpu-ratio")
		b.ReportMetric(size("ours")/size("excelize"), "of-excelize-size")
		b.ReportMetric(best(c), "libxlsxwriter-cpu-s")
		b.ReportMetric(best(c)/best(ours), "libxlsxwriter-cpu-ratio")
	}
}

// BenchmarkLevels shows what each level of DEFLATE costs and gives.
func BenchmarkLevels(b *testing.B) {
	for n := 1; n <= 6; n++ {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			file := filepath.Join(b.TempDir(), "level.xlsx")
			for b.Loop() {
				u := run(b.Context(), b, "ours", benchRows, file, n)
				b.ReportMetric(u.CPU.Seconds(), "cpu-s")
				b.ReportMetric(benchRows/u.Wall.Seconds(), "rows/s")
				b.ReportMetric(float64(sizeOf(b, file))/1e6, "file-MB")
				b.ReportMetric(float64(u.Peak)/1e6, "peak-MB")
			}
		})
	}
}

func buildC(b *testing.B) string {
	b.Helper()
	program := filepath.Join(b.TempDir(), "libxlsxwriter")
	out, err := exec.CommandContext(b.Context(), "cc", "-O2", "-o", program, filepath.Join("testdata", "libxlsxwriter.c"), "-lxlsxwriter").CombinedOutput()
	if err != nil {
		b.Fatalf("compile with libxlsxwriter (packages gcc and libxlsxwriter-dev): %v\n%s", err, out)
	}
	return program
}

func sizeOf(tb testing.TB, file string) int64 {
	tb.Helper()
	info, err := os.Stat(file)
	if err != nil {
		tb.Fatal(err)
	}
	return info.Size()
}
