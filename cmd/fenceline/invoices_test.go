package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/invoice"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

type numbersAnswer struct {
	Next    int64            `json:"next"`
	Used    int64            `json:"used"`
	Missing []map[string]any `json:"missing"`
}

type batchAnswer struct {
	Batch  storage.Batch       `json:"batch"`
	Counts storage.BatchCounts `json:"counts"`
}

// The nightly run is killed half-way, by kill -9, asked for again and asked for
// twice: every customer has exactly one invoice, and no number is lost.
func TestInvoiceRunKilledHalfway(t *testing.T) {
	t.Parallel()
	const customers = 600
	s := newSite(t, redistest.Shared(t))
	s.report("monthly", "-- series: s\n-- param: month text required\n\nSELECT id::text AS customer, document FROM public.billed WHERE :month <> '' ORDER BY id")
	s.sql("CREATE TABLE public.billed (id int PRIMARY KEY, document jsonb)",
		"INSERT INTO public.billed SELECT i, '"+strings.ReplaceAll(string(invoice.Example()), "'", "''")+"'::jsonb - 'number' FROM generate_series(1, 600) i")
	refused := s.run("dispatch", "invoices", "monthly", "--param", "month=2026-10")
	if refused.code != exitUsage || !strings.Contains(refused.err, "fenceline series create") {
		t.Errorf("without the series: exit %d, %s", refused.code, refused.err)
	}
	s.ok("series", "create", "s", "--prefix", "R-")
	victim := s.start("work")
	victim.says("worker started")
	ask := func() storage.Job {
		return asJSON[struct{ Job storage.Job }](s, "dispatch", "invoices", "monthly", "--param", "month=2026-10").Job
	}
	numbers := func() numbersAnswer { return asJSON[numbersAnswer](s, "series", "numbers", "s") }
	first := ask()
	until(t, "a part of the numbers is given out", func() bool { n := numbers().Used; return n > 0 && n < customers })
	s.must(victim.Process.Kill())
	<-victim.exited
	if n := numbers(); n.Used == customers {
		t.Fatal("the victim was too fast")
	}
	second := ask()
	s.start("work").says("worker started")
	s.start("work").says("worker started")
	for _, job := range []storage.Job{first, second} {
		until(t, "the run has ended", func() bool { return s.job(job.ID).State.Ended() })
		if got := s.job(job.ID); got.State == storage.JobFailed {
			t.Fatal(deref(got.Error))
		}
	}
	batch := asJSON[[]storage.Batch](s, "batch", "list")[0]
	show := func() storage.BatchCounts { return asJSON[batchAnswer](s, "batch", "show", batch.ID.String()).Counts }
	until(t, "every invoice is rendered", func() bool { return show().Ended() })
	if c := show(); c.Total != customers || c.States[storage.JobDone] != customers {
		t.Errorf("the batch is %+v", c)
	}
	if n := numbers(); n.Used != customers || n.Next != customers+1 || len(n.Missing) != 0 {
		t.Errorf("numbers %+v", n)
	}
	packed := filepath.Join(s.dir, "all.zip")
	s.ok("batch", "zip", batch.ID.String(), "-o", packed)
	if info, err := os.Stat(packed); err != nil || info.Size() < customers*1000 {
		t.Errorf("the ZIP: %v, %v", info, err)
	}
}

func TestInvoiceCommands(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	s.ok("series", "create", "s", "--prefix", "A-", "--digits", "3")
	s.ok("series", "create", "s", "--prefix", "A-", "--digits", "3")
	file := filepath.Join(s.dir, "invoice.json")
	var kept []string
	for line := range strings.Lines(string(invoice.Example())) {
		if !strings.Contains(line, `"number"`) {
			kept = append(kept, line)
		}
	}
	s.must(os.WriteFile(file, []byte(strings.Join(kept, "")), 0o600))
	twice, broken := filepath.Join(s.dir, "twice.json"), filepath.Join(s.dir, "broken.json")
	s.must(os.WriteFile(twice, []byte(strings.Replace(string(invoice.Example()), "{", `{"prepaid": "5.00",`, 1)), 0o600))
	marked := filepath.Join(s.dir, "marked.json") // with the byte order mark of some editors
	s.must(os.WriteFile(marked, append([]byte("\ufeff"), invoice.Example()...), 0o600))
	s.ok("dispatch", "invoice", marked)
	s.must(os.WriteFile(broken, []byte("{\"currency\": \"EUR\",\n}"), 0o600))
	if out := s.ok("invoice", "issue", file, "--series", "s"); !strings.Contains(out, "invoice A-001") {
		t.Error(out)
	}
	s.ok("invoice", "void", "A-001", "--reason", "wrong address", "--yes")
	if out := s.ok("series", "numbers", "s"); !strings.Contains(out, "wrong address") || !strings.Contains(out, "A-001") {
		t.Error(out)
	}
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitRefused, "another form", []string{"series", "create", "s", "--prefix", "B-"}},
		{exitUsage, "--digits", []string{"series", "create", "t", "--digits", "0"}},
		{exitUsage, "--prefix", []string{"series", "create", "t", "--prefix", "A B"}},
		{exitUsage, "--prefix", []string{"series", "create", "t", "--prefix", "A\u202e"}},
		{exitUsage, "--first", []string{"series", "create", "t", "--first", "9223372036854775807"}},
		{exitUsage, "prepaid: is given twice", []string{"dispatch", "invoice", twice}},
		{exitUsage, "prepaid: is given twice", []string{"dispatch", "invoice", twice, "--files", "pdf,ubl"}},
		{exitUsage, "line 2, column 1", []string{"dispatch", "invoice", broken}},
		{exitUsage, "line 2, column 1", []string{"invoice", "issue", broken, "--series", "s"}},
		{exitUsage, "series", []string{"invoice", "issue", file}},
		{exitNotFound, "no such series", []string{"invoice", "issue", file, "--series", "none"}},
		{exitUsage, "--reason", []string{"invoice", "void", "A-001"}},
		{exitRefused, "void already", []string{"invoice", "void", "A-001", "--reason", "again", "--yes"}},
		{exitNotFound, "A-999", []string{"invoice", "void", "A-999", "--reason", "again", "--yes"}},
		{exitNotFound, "no such series", []string{"series", "numbers", "none"}},
		{exitUsage, "id", []string{"batch", "show", "x"}},
		{exitNotFound, "batch", []string{"batch", "show", "0190f1d2-0000-7000-8000-000000000000"}},
	} {
		if got := s.run(c.args...); got.code != c.code || !strings.Contains(got.err, c.says) {
			t.Errorf("%v: exit %d, %s", c.args, got.code, got.err)
		}
	}
}

func TestJobRetry(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	s.report("late", "SELECT a FROM public.late ORDER BY 1")
	s.sql("CREATE TABLE public.late (a int)")
	s.start("work").says("worker started")
	ask := func(args ...string) storage.Job {
		return asJSON[struct{ Job storage.Job }](s, append([]string{"dispatch", "report", "late", "--max-attempts", "1"}, args...)...).Job
	}
	s.sql("CREATE FUNCTION public.stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'the disk is full'; END $$",
		"CREATE TRIGGER stop BEFORE INSERT ON fenceline.files FOR EACH ROW EXECUTE FUNCTION public.stop()")
	one, two, three := ask(), ask("--format", "xlsx"), ask("--format", "jsonl")
	for _, job := range []storage.Job{one, two, three} {
		until(t, "the job has failed", func() bool { return s.job(job.ID).State == storage.JobFailed })
	}
	s.sql("DROP TRIGGER stop ON fenceline.files")
	if r := s.run("job", "retry"); r.code != exitUsage {
		t.Errorf("without anything: %d, %s", r.code, r.err)
	}
	s.ok("job", "retry", one.ID.String())
	until(t, "it is done", func() bool { return s.job(one.ID).State == storage.JobDone })
	if r := s.run("job", "retry", one.ID.String()); r.code != exitRefused {
		t.Errorf("a job that is done: %d, %s", r.code, r.err)
	}
	if out := s.ok("job", "retry", "--all", "--error", "DISK IS FULL"); !strings.Contains(out, "2 failed jobs match") {
		t.Error(out)
	}
	if out := s.ok("job", "retry", "--all", "--error", "disk is full", "--yes"); !strings.Contains(out, "2 jobs are queued again") {
		t.Error(out)
	}
	for _, job := range []storage.Job{two, three} {
		until(t, "it is done", func() bool { return s.job(job.ID).State == storage.JobDone })
	}
}

// What happened to values is said where the file is.
func TestWarningsAreSaid(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	s.report("risky", "-- preset: spreadsheet\n\nSELECT '=1+1' AS a, 'b' AS b ORDER BY 1")
	s.start("work").says("worker started")
	const want = "warning: 1 × in column “a” of csv: text that a spreadsheet would run as a formula"
	if out := s.ok("dispatch", "report", "risky", "-o", filepath.Join(s.dir, "risky.csv")); !strings.Contains(out, want) {
		t.Error(out)
	}
	job := asJSON[struct {
		Items []storage.Job `json:"items"`
	}](s, "job", "list").Items[0]
	for _, args := range [][]string{{"job", "show", job.ID.String()}, {"export", "show", job.ExportID.String()}} {
		if out := s.ok(args...); !strings.Contains(out, want) {
			t.Errorf("%v: %s", args, out)
		}
	}
}

// The files of an invoice are not the folder of the files, though both are called --files.
func TestFilesOfAnInvoiceAreNotTheFilesFolder(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	document := filepath.Join(s.dir, "invoice.json")
	s.must(os.WriteFile(document, []byte(s.ok("dispatch", "example-invoice")), 0o600))
	s.ok("dispatch", "invoice", document, "--files", "pdf,ubl")
	if _, err := os.Stat(s.env["FILES_DIR"]); err != nil {
		t.Error("the folder that FILES_DIR names was not used:", err)
	}
}
