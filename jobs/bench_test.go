package jobs_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/storagetest"
)

// benchReport is a realistic list of orders.
const benchReport = `-- title: Orders
-- column: total money(EUR)
SELECT id, uid, customer, email, total, currency, ordered_at, meta, note FROM orders ORDER BY id`

// benchRows is how many rows the benchmarks read, unless FENCELINE_BENCH_ROWS says otherwise.
func benchRows(b *testing.B) int {
	text := os.Getenv("FENCELINE_BENCH_ROWS")
	if text == "" {
		return 2_000_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatal("FENCELINE_BENCH_ROWS:", err)
	}
	return n
}

// orders makes the table: text with commas, quotes, line breaks and several scripts.
func orders(b *testing.B, url string, rows int) {
	b.Helper()
	ctx := b.Context()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, statement := range []string{
		`CREATE TABLE orders (id bigint PRIMARY KEY, uid uuid NOT NULL, customer text NOT NULL, email text NOT NULL, total numeric(12,2) NOT NULL,
			currency text NOT NULL, ordered_at timestamptz NOT NULL, meta jsonb, note text)`,
		fmt.Sprintf(`INSERT INTO orders SELECT i, md5(i::text)::uuid,
			(ARRAY['Rahman Traders', 'মেসার্স রহমান ট্রেডার্স, ঢাকা', 'श्री. कुलकर्णी आणि कंपनी, पुणे', 'شركة النور للتجارة', 'Müller & Söhne GmbH',
				'O''Brien, "Pat" & Co.', 'Acme Industrial Supply Ltd', '株式会社サンプル'])[1 + i %% 8] || ' ' || i %% 5000,
			'user' || i %% 700000 || '@example' || i %% 37 || '.com', (i * 791919 %% 25000000) / 100.0, (ARRAY['USD', 'EUR', 'BDT', 'INR', 'SAR', 'JPY'])[1 + i %% 6],
			timestamptz '2022-01-01' + i * interval '61.25 seconds',
			CASE WHEN i %% 5 > 0 THEN jsonb_build_object('qty', 1 + i %% 17, 'sku', 'SKU-' || i %% 9973, 'gift', i %% 3 = 0, 'tags', ARRAY['a' || i %% 13, 'b,"q"']) END,
			CASE i %% 8 WHEN 2 THEN 'plain note number ' || i WHEN 3 THEN 'comma, separated, note ' || i WHEN 4 THEN 'he said "urgent" about ' || i
				WHEN 5 THEN E'line one\nline two, "quoted"\nline three ' || i WHEN 6 THEN 'জরুরি ডেলিভারি, पुणे कार्यालय — ✓ ' || i
				WHEN 7 THEN repeat('lorem ipsum dolor sit amet ', (1 + i %% 6)::int) || i END
			FROM generate_series(1, %d::bigint) i`, rows),
		"VACUUM (FREEZE, ANALYZE) orders",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			b.Fatal(err)
		}
	}
}

const (
	childURL    = "FENCELINE_BENCH_URL"
	childFormat = "FENCELINE_BENCH_FORMAT"
	childDir    = "FENCELINE_BENCH_DIR"
)

// benchChild writes one file in a process of its own, so that its memory and CPU
// are that of a worker with this job. It reports false in every other process.
func benchChild() bool {
	if os.Getenv(childURL) == "" {
		return false
	}
	if err := writeOnce(context.Background(), os.Getenv(childURL), os.Getenv(childFormat), os.Getenv(childDir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// writeOnce is what an attempt does between its token and its publication.
func writeOnce(ctx context.Context, url, format, dir string) error {
	store, err := storage.Open(ctx, url, storage.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	reports, err := jobs.NewReports(jobs.ReportConfig{Store: store, Catalog: report.NewCatalog(fstest.MapFS{"orders.sql": {Data: []byte(benchReport)}})})
	if err != nil {
		return err
	}
	local, err := files.OpenLocal(filepath.Join(dir, "files"), uuid.New())
	if err != nil {
		return err
	}
	defer local.Close()
	out, err := local.Create(ctx, files.Place{Export: uuid.New(), Token: 1, Attempt: uuid.New()}, files.ObjectName(1, "orders."+format))
	if err != nil {
		return err
	}
	defer out.Abort()
	if _, err := reports.WriteTo(ctx, out, "orders", nil, report.Choice{Formats: []string{format}}); err != nil {
		return err
	}
	_, err = out.Commit()
	return err
}

// used is what a child process took.
type used struct {
	wall, cpu time.Duration
	rss       int64 // bytes, at its peak
}

func runChild(b *testing.B, cmd *exec.Cmd) used {
	b.Helper()
	cmd.Stderr = os.Stderr
	started := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatal(cmd.Args, err)
	}
	u := used{wall: time.Since(started), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	if ru, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.rss = ru.Maxrss * 1024
		if runtime.GOOS == "darwin" {
			u.rss = ru.Maxrss
		}
	}
	return u
}

func ours(b *testing.B, url, format string) used {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childURL+"="+url, childFormat+"="+format, childDir+"="+b.TempDir())
	return runChild(b, cmd)
}

// psql is the peer: \copy to a file, synced as ours is.
func psql(b *testing.B, url string) used {
	b.Helper()
	to := filepath.Join(b.TempDir(), "orders.csv")
	query := strings.ReplaceAll(benchReport[strings.Index(benchReport, "SELECT"):], "\n", " ")
	started := time.Now()
	u := runChild(b, exec.Command("psql", url, "-qXc", `\copy (`+query+`) TO '`+to+`' WITH (FORMAT csv, HEADER)`))
	f, err := os.OpenFile(to, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	u.wall = time.Since(started)
	return u
}

func benchDatabase(b *testing.B, rows int) string {
	b.Helper()
	url := storagetest.Database(b, func(ctx context.Context, url string) error {
		_, err := storage.Migrate(ctx, url)
		return err
	})
	orders(b, url, rows)
	return url
}

// BenchmarkCSVAgainstPsql writes the same rows in turns: ours, hashed and synced,
// and psql's \copy, synced. The ratio is of rows per second, ours by psql's.
func BenchmarkCSVAgainstPsql(b *testing.B) {
	rows := benchRows(b)
	url := benchDatabase(b, rows)
	psql(b, url) // warms the server's caches
	var ratios []float64
	var mine, theirs used
	for b.Loop() {
		theirs, mine = psql(b, url), ours(b, url, "csv")
		ratios = append(ratios, theirs.wall.Seconds()/mine.wall.Seconds())
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x-psql")
	b.ReportMetric(float64(rows)/mine.wall.Seconds(), "rows/s")
	b.ReportMetric(float64(rows)/theirs.wall.Seconds(), "psql-rows/s")
	b.ReportMetric(float64(mine.rss)/(1<<20), "peak-MB")
}

// BenchmarkFormats writes every format at two sizes: peak memory must not follow
// the size.
func BenchmarkFormats(b *testing.B) {
	large := benchRows(b)
	small, big := benchDatabase(b, large/50), benchDatabase(b, large)
	for _, format := range []string{"csv", "csv.gz", "csv.zst", "jsonl", "xlsx", "parquet"} {
		b.Run(format, func(b *testing.B) {
			var few, many used
			for b.Loop() {
				few, many = ours(b, small, format), ours(b, big, format)
			}
			b.ReportMetric(float64(large)/many.wall.Seconds(), "rows/s")
			b.ReportMetric(many.cpu.Seconds(), "cpu-s")
			b.ReportMetric(float64(many.rss)/(1<<20), "peak-MB")
			b.ReportMetric(float64(many.rss)/float64(few.rss), "x-memory-at-50x-rows")
		})
	}
}

// BenchmarkInvoiceRun bills customers end to end on a PostgreSQL that syncs every
// commit: number, job, lease, token, PDF, fsync, publish.
func BenchmarkInvoiceRun(b *testing.B) {
	const customers = 1000
	server := storagetest.Server(b, map[string]string{"fsync": "on", "full_page_writes": "on"})
	redis := redistest.Server(b)
	for i := 0; b.Loop(); i++ {
		name := fmt.Sprintf("run%d", i)
		if err := server.EnsureDatabase(b.Context(), name); err != nil {
			b.Fatal(err)
		}
		if _, err := storage.Migrate(b.Context(), server.URL(name)); err != nil {
			b.Fatal(err)
		}
		w := billingAt(worldAt(b, redis, server.URL(name)), customers)
		w.log = slog.New(slog.DiscardHandler)
		stop := w.worker()
		started := time.Now()
		w.ends(w.ofKind("invoices", `{"source":"monthly","params":{"month":"2026-10"}}`), storage.JobDone)
		w.until("all invoices are published", func() bool { _, c := w.onlyBatch(); return c.Total == customers && c.Ended() })
		b.ReportMetric(customers/time.Since(started).Seconds(), "invoices/s")
		stop()
	}
}
