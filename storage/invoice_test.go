package storage_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

func (w *world) series(name string) storage.Series {
	w.t.Helper()
	n := storage.Series{Tenant: "acme", Name: name, Prefix: "INV-", Digits: 4, First: 1}
	w.must(w.store.CreateSeries(w.ctx, n))
	return n
}

// issue issues one document; undo rolls it back.
func (w *world) issue(n storage.Issuing, undo bool) (out storage.Issued, err error) {
	errUndo := errors.New("undone")
	n.Tenant = "acme"
	if n.Document == nil {
		n.Document = []byte(`{"a": 1.10}`)
	}
	err = w.store.Transaction(w.ctx, func(tx storage.Tx) error {
		var err error
		if out, err = w.store.IssueInvoice(w.ctx, tx, n); err == nil && undo {
			err = errUndo
		}
		return err
	})
	if errors.Is(err, errUndo) {
		err = nil
	}
	return out, err
}

func TestNumbersHaveNoGaps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.series("s")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for k := range 20 {
				if _, err := w.issue(storage.Issuing{Series: "s"}, k%3 == 0); err != nil { // a third fails after its number
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	n, err := w.store.NumbersOf(w.ctx, "acme", "s")
	w.must(err)
	if n.Used != 52 || n.Next != 53 || len(n.Missing) != 0 || len(n.Voided) != 0 {
		t.Errorf("%+v", n)
	}
	out, err := w.issue(storage.Issuing{Series: "s"}, false)
	if err != nil || out.Number != "INV-0053" || !out.New || !strings.Contains(string(out.Document), `"number": "INV-0053"`) || !strings.Contains(string(out.Document), "1.10") {
		t.Errorf("%+v, %s, %v", out, out.Document, err)
	}
}

// However many ask at once, a customer has one document for a period.
func TestOneInvoiceForACustomerAndPeriod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.series("s")
	numbers := make([]string, 8)
	var wg sync.WaitGroup
	for i := range numbers {
		wg.Go(func() {
			out, err := w.issue(storage.Issuing{Series: "s", Customer: "c1", Period: "2026-10"}, false)
			if err != nil {
				t.Error(err)
			}
			numbers[i] = out.Number
		})
	}
	wg.Wait()
	for _, n := range numbers {
		if n != "INV-0001" {
			t.Errorf("numbers %q", numbers)
		}
	}
	w.must(w.store.VoidInvoice(w.ctx, storage.Scope{Tenant: "acme"}, "INV-0001", "wrong address"))
	again, err := w.issue(storage.Issuing{Series: "s", Customer: "c1", Period: "2026-10"}, false)
	if err != nil || again.Number != "INV-0002" {
		t.Errorf("after voiding: %+v, %v", again, err)
	}
	if err := w.store.VoidInvoice(w.ctx, storage.Scope{Tenant: "globex"}, "INV-0002", "x"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("another tenant voided it: %v", err)
	}
	n, err := w.store.NumbersOf(w.ctx, "acme", "s")
	w.must(err)
	if n.Used != 1 || len(n.Voided) != 1 || n.Voided[0].Reason != "wrong address" {
		t.Errorf("%+v", n)
	}
}

// An attempt whose job was handed on issues nothing.
func TestAStaleAttemptIssuesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.series("s")
	job := w.insert(newJob("run"))
	stale := w.begin(job)
	w.exec("UPDATE fenceline.attempts SET heartbeat_at = clock_timestamp() - interval '1 hour' WHERE id = $1", stale.ID)
	w.handOn(1)
	if _, err := w.issue(storage.Issuing{Series: "s", Attempt: stale.ID}, false); !errors.Is(err, storage.ErrFenced) {
		t.Errorf("a stale attempt got a number: %v", err)
	}
	newer := w.begin(job)
	if out, err := w.issue(storage.Issuing{Series: "s", Attempt: newer.ID}, false); err != nil || out.Number != "INV-0001" {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestIssuedDocumentsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.series("s")
	for range 4 {
		_, err := w.issue(storage.Issuing{Series: "s"}, false)
		w.must(err)
	}
	for _, statement := range []string{
		"DELETE FROM fenceline.invoices WHERE n = 2", "UPDATE fenceline.invoices SET document = '{}'", "UPDATE fenceline.invoices SET number = 'x' WHERE n = 1",
		"UPDATE fenceline.invoice_series SET next = 1", "UPDATE fenceline.invoice_series SET next = next + 2", "UPDATE fenceline.invoice_series SET prefix = 'X'",
		"DELETE FROM fenceline.invoice_series",
	} {
		if err := w.tryExec(statement); err == nil {
			t.Errorf("the guards let pass: %s", statement)
		}
	}
	err := w.store.CreateSeries(w.ctx, storage.Series{Tenant: "acme", Name: "s", Prefix: "OTHER-", Digits: 4, First: 1})
	if !errors.Is(err, storage.ErrSeriesExists) {
		t.Errorf("the series was given another form: %v", err)
	}
	w.series("s") // the same again is fine
	if _, err := w.issue(storage.Issuing{Series: "none"}, false); !errors.Is(err, storage.ErrNoSeries) {
		t.Errorf("issued from no series: %v", err)
	}
	// Who goes past the guards is found.
	w.exec("ALTER TABLE fenceline.invoices DISABLE TRIGGER guard")
	w.exec("DELETE FROM fenceline.invoices WHERE n IN (1, 3, 4)")
	n, err := w.store.NumbersOf(w.ctx, "acme", "s")
	w.must(err)
	if got := fmt.Sprint(n.Missing); got != "[{1 1} {3 4}]" {
		t.Errorf("missing %s", got)
	}
}

func TestBatchesAreCountedFromTheirJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, err := w.store.EnsureBatch(w.ctx, storage.Batch{Tenant: "acme", Key: "k", Title: "K"})
	w.must(err)
	again, err := w.store.EnsureBatch(w.ctx, storage.Batch{Tenant: "acme", Key: "k", Title: "K"})
	if err != nil || again.ID != b.ID {
		t.Errorf("the same batch twice: %v, %v", again, err)
	}
	var jobs []storage.Job
	for i := range 4 {
		n := newJob(fmt.Sprint("job", i))
		n.Batch, n.MaxAttempts = &b.ID, 1
		jobs = append(jobs, w.insert(n))
	}
	w.insert(newJob("of no batch"))
	done := w.seal(w.begin(jobs[0]))
	w.must(w.store.Publish(w.ctx, done.ID))
	for _, job := range jobs[1:3] {
		_, err := w.store.EndAttempt(w.ctx, w.begin(job).ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "no font", Counts: true})
		w.must(err)
	}
	c, err := w.store.CountBatch(w.ctx, b.ID)
	w.must(err)
	if c.Total != 4 || c.States[storage.JobDone] != 1 || c.States[storage.JobFailed] != 2 || c.States[storage.JobQueued] != 1 || c.Ended() ||
		len(c.Failures) != 1 || c.Failures[0].Count != 2 || c.Failures[0].Error != "no font" {
		t.Errorf("%+v", c)
	}
	if _, err := w.store.RetryBatch(w.ctx, storage.Scope{Tenant: "globex"}, b.ID); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("another tenant may retry: %v", err)
	}
	n, err := w.store.RetryBatch(w.ctx, everything, b.ID)
	if err != nil || n != 2 {
		t.Errorf("%d retried, %v", n, err)
	}
	if c, err = w.store.CountBatch(w.ctx, b.ID); err != nil || c.States[storage.JobQueued] != 3 {
		t.Errorf("%+v, %v", c, err)
	}
	list, err := w.store.BatchFiles(w.ctx, b.ID, uuid.Nil, 10)
	if err != nil || len(list) != 1 || list[0].Job != jobs[0].ID || list[0].Attempt != done.ID || list[0].Name == "" {
		t.Errorf("%+v, %v", list, err)
	}
	if page, err := w.store.Batches(w.ctx, storage.Scope{Tenant: "globex"}, uuid.Nil, 10); err != nil || len(page) != 0 {
		t.Errorf("another tenant sees %v, %v", page, err)
	}
}
