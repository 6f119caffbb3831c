package invoice

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// manyLines is a document with n lines of different descriptions.
func manyLines(tb testing.TB, n int) []byte {
	tb.Helper()
	lines := make([]any, n)
	for i := range lines {
		lines[i] = with(line(description(i), fmt.Sprint(i%7+1), fmt.Sprintf("%d.%02d", i%90+1, i%100),
			[]string{"19", "7"}[i%2]), "unit", "pcs")
	}
	return simple(tb, object{"lines": lines})
}

func description(i int) string { return fmt.Sprintf("Item %04d, oak, planed and oiled", i+1) }

// testLogo is a PNG file with a picture that is partly see-through.
func testLogo(tb testing.TB) []byte {
	tb.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, 240, 72))
	for y := range 72 {
		for x := range 240 {
			if dx, dy := x-36, y-36; dx*dx+dy*dy < 1100 {
				img.Set(x, y, color.NRGBA{14, 116, 120, 255})
			} else if x > 84 && y/12%2 == 1 {
				img.Set(x, y, color.NRGBA{214, 96, 40, uint8(255 - x/2)})
			}
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// forty is the invoice that is measured: two pages, 40 lines, a logo, and names
// in Bengali, Devanagari and Arabic.
func forty(tb testing.TB, number int) *Document {
	tb.Helper()
	items := []string{"Jamdani saree শাড়ি জামদানি", "Brass lamp पीतल का दीपक", "Kettle إبريق شاي", "Oak table, oiled", "Chair “Ærø”, beech"}
	lines := make([]any, 40)
	for i := range lines {
		lines[i] = with(line(fmt.Sprintf("%s, no. %d", items[i%len(items)], number+i), fmt.Sprint(i%7+1),
			fmt.Sprintf("%d.%02d", (number*7+i*31)%900+10, i), "19"), "unit", "pcs")
	}
	return parse(tb, simple(tb, object{
		"number": fmt.Sprintf("2026-%05d", number), "lines": lines, "logo": base64.StdEncoding.EncodeToString(testLogo(tb)),
		"customer": object{"name": "শান্তিনিকেতন হস্তশিল্প", "address": []any{"राष्ट्रीय पुस्तक भंडार", "مكتبة النهضة العربية", fmt.Sprintf("%d Long Road", number)}},
		"payment":  object{"iban": "DE89370400440532013000", "reference": fmt.Sprint(number)},
	}))
}

// cpu is what this process, or its children, used of the processor so far.
func cpu(tb testing.TB, who int) time.Duration {
	tb.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(who, &used); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkInvoice writes the same invoice by this package and, as HTML, by
// wkhtmltopdf and WeasyPrint (Debian packages wkhtmltopdf and weasyprint). It
// counts processor time, ours with garbage collection. An invoice is a file of
// its own, and so a process of its own for the programs; how they would do
// without their start is told beside it.
func BenchmarkInvoice(b *testing.B) {
	own := 0.0
	b.Run("own", func(b *testing.B) {
		docs := make([]*Document, 64)
		for i := range docs {
			docs[i] = forty(b, i+1)
		}
		for _, d := range docs { // the fonts are parsed once per process, and words are met again
			if _, err := d.WritePDF(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportAllocs()
		b.ResetTimer()
		before := cpu(b, syscall.RUSAGE_SELF)
		i := 0
		for b.Loop() {
			report, err := docs[i%len(docs)].WritePDF(io.Discard)
			if err != nil || report.Pages != 2 || len(report.Warnings) > 0 {
				b.Fatal(report, err)
			}
			i++
		}
		own = (cpu(b, syscall.RUSAGE_SELF) - before).Seconds() / float64(i)
		b.ReportMetric(1/own, "invoices/cpu-s")
	})
	for _, other := range []struct {
		name string
		args func(page, out string) []string
	}{
		{"wkhtmltopdf", func(page, out string) []string { return []string{"--quiet", "--enable-local-file-access", page, out} }},
		{"weasyprint", func(page, out string) []string { return []string{page, out} }},
	} {
		b.Run(other.name, func(b *testing.B) {
			if _, err := exec.LookPath(other.name); err != nil {
				b.Fatalf("%s is missing; the comparison needs the Debian packages wkhtmltopdf and weasyprint: %v", other.name, err)
			}
			whole, page := measureProgram(b, other.name, other.args)
			b.ReportMetric(1/whole, "invoices/cpu-s")
			if own > 0 {
				b.ReportMetric(whole/own, "times-our-cpu")
				b.ReportMetric(page/own, "times-our-cpu-without-start")
			}
		})
	}
}

// measureProgram is the processor seconds that an invoice takes a program, and
// those without its start: of a page of 21 invoices less those of one.
func measureProgram(b *testing.B, name string, args func(page, out string) []string) (whole, page float64) {
	b.Helper()
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "logo.png"), testLogo(b), 0o600); err != nil {
		b.Fatal(err)
	}
	runtimeDir := filepath.Join(dir, "run")
	if err := os.Mkdir(runtimeDir, 0o700); err != nil {
		b.Fatal(err)
	}
	const few, many = 1, 21
	run := func(n int) time.Duration {
		var page strings.Builder
		page.WriteString(pageHead)
		for i := range n {
			writeHTML(&page, forty(b, i+1))
		}
		path := filepath.Join(dir, "page.html")
		if err := os.WriteFile(path, []byte(page.String()), 0o600); err != nil {
			b.Fatal(err)
		}
		before := cpu(b, syscall.RUSAGE_CHILDREN)
		cmd := exec.CommandContext(b.Context(), name, args(path, filepath.Join(dir, "out.pdf"))...)
		cmd.Env = append(os.Environ(), "QT_QPA_PLATFORM=offscreen", "XDG_RUNTIME_DIR="+runtimeDir)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%s: %v\n%s", name, err, out)
		}
		return cpu(b, syscall.RUSAGE_CHILDREN) - before
	}
	for b.Loop() {
		one := run(few).Seconds()
		rest := (run(many).Seconds() - one) / (many - few)
		if whole == 0 || one < whole {
			whole = one
		}
		if page == 0 || rest < page {
			page = rest
		}
	}
	return whole, page
}

const pageHead = `<!doctype html><meta charset="utf-8"><style>
@page { size: A4; margin: 18mm } body { font: 9pt "Noto Sans", "Noto Sans Bengali", "Noto Sans Devanagari", "Noto Sans Arabic"; margin: 0 }
article { page-break-after: always } table { width: 100%; border-collapse: collapse } thead { display: table-header-group }
tr { page-break-inside: avoid } td, th { padding: 3pt; border-bottom: .5pt solid #ccc; text-align: right } td:nth-child(2), th:nth-child(2) { text-align: left }
h1 { color: #22344d } .to { float: left } .facts { float: right } .rows { clear: both }
</style>`

// writeHTML is the invoice as a page that looks much like ours.
func writeHTML(out *strings.Builder, d *Document) {
	e := html.EscapeString
	sums, l := d.Totals(), d.locale()
	fmt.Fprintf(out, `<article><img src="logo.png" width="170"><h1>%s</h1><div class="to"><b>%s</b>`, e(d.Title()), e(d.Customer.Name))
	for _, a := range d.Customer.Address {
		fmt.Fprintf(out, "<br>%s", e(a))
	}
	fmt.Fprintf(out, `</div><div class="facts">%s<br>%s</div><table class="rows"><thead><tr><th>#<th>Description<th>Quantity<th>Unit price<th>Tax<th>Amount</thead><tbody>`,
		l.day(d.IssueDate), l.day(d.DueDate))
	for i, line := range d.Lines {
		fmt.Fprintf(out, "<tr><td>%d<td>%s<td>%s %s<td>%s<td>%s<td>%s", i+1, e(line.Description), line.Quantity, e(line.Unit),
			l.exact(line.UnitPrice, 2).text, l.percent(line.TaxRate).text, l.fixed(sums.Lines[i], 2).text)
	}
	fmt.Fprintf(out, `</tbody></table><p style="text-align:right">%s<br>%s<br><b>%s</b></p></article>`,
		l.money(sums.Net, d.Currency), l.money(sums.Tax, d.Currency), l.money(sums.Due, d.Currency))
}

// Memory does not grow with the number of documents, whatever their words, and
// many may be written at once.
func TestMemoryStaysFlat(t *testing.T) {
	r, err := NewRenderer(Options{})
	if err != nil {
		t.Fatal(err)
	}
	round := func(first int) uint64 {
		var group sync.WaitGroup
		for worker := range 2 {
			group.Go(func() {
				for i := range 25 {
					raw := simple(t, object{"number": fmt.Sprint(first, "-", worker, "-", i),
						"notes": strings.Repeat(fmt.Sprintf("word%d বই%d ", first+i, i), 40)})
					if _, err := r.WritePDF(io.Discard, parse(t, raw)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	round(0)
	before := round(1000)
	after := round(100_000)
	if after > before+8<<20 {
		t.Errorf("%d KiB are in use after more documents, %d KiB before", after>>10, before>>10)
	}
}
