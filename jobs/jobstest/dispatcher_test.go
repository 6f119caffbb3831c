package jobstest_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/jobstest"
	"github.com/fenceline/fenceline/storage"
)

func send(t testing.TB, d *jobstest.Dispatcher, payload string, options ...jobs.Option) jobs.Receipt {
	t.Helper()
	r, err := d.Dispatch(t.Context(), nil, jobs.Request{Kind: "mail", Payload: []byte(payload)}, options...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func item(payload string, options ...jobs.Option) jobs.Item {
	return jobs.Item{Request: jobs.Request{Kind: "mail", Payload: []byte(payload)}, Options: options}
}

func TestDispatched(t *testing.T) {
	t.Parallel()
	d := jobstest.NewDispatcher(t, mailKind(), fileKind("file", nil))
	d.NothingDispatched()
	at := time.Now().Add(24 * time.Hour)
	send(t, d, `{"to": "ada", "n": 1, "meta": {"a": {"b": 1, "c": 2}, "list": [1, 2]}}`, jobs.Queue("slow"), jobs.Tags("x", "y"), jobs.Priority(7), jobs.Delay(time.Hour), jobs.MaxAttempts(9))
	send(t, d, `{"to": "bob"}`, jobs.At(at), jobs.IdempotencyKey("k"))
	yes := []jobstest.Matcher{
		jobstest.OnQueue("slow"), jobstest.Tagged("y"), jobstest.Tagged("x", "y"), jobstest.WithPriority(7), jobstest.Delayed(time.Hour), jobstest.WithMaxAttempts(9),
		jobstest.OfTenant("default"), jobstest.WithPayload(mail{To: "ada", N: 1, Meta: map[string]any{"list": []int{1, 2}, "a": map[string]int{"c": 2, "b": 1}}}),
		jobstest.WithFields(map[string]any{"meta": map[string]any{"a": map[string]int{"b": 1}}}), jobstest.WithFields(`{"to": "ada", "meta": {"list": [1, 2]}}`),
		jobstest.Where("it is for ada", func(m mail) bool { return m.To == "ada" }),
	}
	if found := d.Dispatched("mail", yes...); len(found) != 1 || found[0].Job.Queue != "slow" || *found[0].Job.WaitingFor != "later" || found[0].Asked != 1 {
		t.Errorf("%+v", found)
	}
	d.Dispatched("mail", jobstest.DueAt(at), jobstest.WithIdempotencyKey("k"))
	no := []jobstest.Matcher{
		jobstest.OnQueue("x"), jobstest.Tagged("x", "z"), jobstest.WithPriority(1), jobstest.Delayed(0), jobstest.DueAt(time.Now()), jobstest.OfTenant("acme"),
		jobstest.WithPayload(`{"to": "ada"}`), jobstest.WithFields(`{"to": "ada", "meta": {"list": [1]}}`), jobstest.WithFields(`{"to": {"x": 1}}`), jobstest.WithFields(`{"nope": null}`),
		jobstest.WithPayload(func() {}), jobstest.WithFields(func() {}), jobstest.WithPayload("no JSON"), jobstest.InTransaction(), jobstest.WithIdempotencyKey("other"), jobstest.WithMaxAttempts(3),
		jobstest.Where("it is for nobody", func(m mail) bool { return m.To == "" }), jobstest.InBatch(d.All()[0].Job.ID),
	}
	for _, m := range no {
		d.NotDispatched("mail", jobstest.Where("ada", func(m mail) bool { return m.To == "ada" }), m)
	}
	d.Count(2, "mail")
	d.Count(0, "file")
	if _, err := d.Dispatch(t.Context(), anyOf(storage.Tx(nil)), item(`{"to": "eve"}`).Request); err != nil {
		t.Fatal(err)
	}
	if s := d.Dispatched("mail", jobstest.InTransaction()); len(s) != 1 || !strings.Contains(s[0].String(), "in a transaction") {
		t.Errorf("%v", s)
	}
	d.NotDispatched("file")
	d.Forget()
	d.NothingDispatched()
}

// anyOf is a new one of what a pointer points to.
func anyOf[T any](*T) *T { return new(T) }

// Failures say what was dispatched instead, and which condition it does not meet.
func TestWhatFailuresSay(t *testing.T) {
	t.Parallel()
	with := func(use func(*jobstest.Dispatcher)) func(testing.TB) {
		return func(s testing.TB) {
			d := jobstest.NewDispatcher(s, mailKind(), fileKind("file", nil))
			send(t, d, `{"to": "ada"}`, jobs.Tags("x"), jobs.Queue("slow"))
			use(d)
		}
	}
	job := jobstest.Job
	fails(t, with(func(d *jobstest.Dispatcher) { d.Dispatched("mail", jobstest.OnQueue("quick"), jobstest.Tagged("x")) }),
		"no job mail on queue quick tagged x was dispatched", `1. mail {"to":"ada"} · queue slow · tags x`, "not on queue quick")
	fails(t, with(func(d *jobstest.Dispatcher) { d.Dispatched("file") }), "instead there are", "ada")
	fails(t, with(func(d *jobstest.Dispatcher) { d.Count(2, "mail") }), "1 jobs mail were dispatched, want 2", "ada")
	fails(t, with(func(d *jobstest.Dispatcher) { d.NotDispatched("mail") }), "want none", "ada")
	fails(t, with(func(d *jobstest.Dispatcher) { d.NothingDispatched() }), "want none", "ada")
	fails(t, with(func(d *jobstest.Dispatcher) { d.Chained(job("mail"), job("mail")) }), "no chain of mail, then mail", "there is no chain", "ada")
	fails(t, with(func(d *jobstest.Dispatcher) { d.Batched("All", job("mail")) }), `no batch "All" of mail`, "there is no batch", "ada")
	fails(t, func(s testing.TB) { jobstest.NewDispatcher(s, mailKind()).Dispatched("mail") }, "nothing was")
	fails(t, func(s testing.TB) { jobstest.NewDispatcher(s, mailKind(), mailKind()) }, "registered already")
	fails(t, with(func(d *jobstest.Dispatcher) {
		for range 30 {
			send(t, d, `{"to": "bob"}`)
		}
		d.NothingDispatched()
	}), "and 11 more")
	if _, fatal := failures(t, with(func(d *jobstest.Dispatcher) { d.Dispatched("file") })); !fatal {
		t.Error("the test goes on without the job that it asks for")
	}
}

// The fake refuses what the real one refuses.
func TestTheFakeChecksRequests(t *testing.T) {
	t.Parallel()
	d := jobstest.NewDispatcher(t, mailKind())
	for field, ask := range map[string]func() error{
		"to": func() error {
			_, err := d.Dispatch(t.Context(), nil, jobs.Request{Kind: "mail", Payload: []byte(`{}`)})
			return err
		},
		"kind": func() error { _, err := d.Dispatch(t.Context(), nil, jobs.Request{Kind: "fax"}); return err },
		"queue": func() error {
			_, err := d.Dispatch(t.Context(), nil, item(`{"to": "ada"}`).Request, jobs.Queue("!"))
			return err
		},
		"delay": func() error {
			_, err := d.Dispatch(t.Context(), nil, item(`{"to": "ada"}`).Request, jobs.Delay(-1))
			return err
		},
		"jobs[1].to": func() error {
			_, err := d.DispatchAll(t.Context(), nil, []jobs.Item{item(`{"to": "ada"}`), item(`{}`)})
			return err
		},
		"jobs[0]": func() error {
			_, err := d.Chain(t.Context(), nil, []jobs.Item{item(`{"to": "ada"}`, jobs.IdempotencyKey("x"))})
			return err
		},
		"then.to": func() error {
			then := item(`{}`)
			_, _, err := d.Batch(t.Context(), nil, jobs.BatchRequest{Jobs: []jobs.Item{item(`{"to": "ada"}`)}, Then: &then})
			return err
		},
	} {
		var bad *invalid.Error
		if err := ask(); !errors.As(err, &bad) || bad.Problems[0].Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	d.NothingDispatched()
}

// Keys answer as they do in the database.
func TestKeysOfTheFake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := jobstest.NewDispatcher(t, mailKind())
		first := send(t, d, `{"to": "ada"}`, jobs.IdempotencyKey("k"))
		if again := send(t, d, `{"to": "ada"}`, jobs.IdempotencyKey("k")); !again.Reused || again.Job.ID != first.Job.ID {
			t.Errorf("%+v", again)
		}
		_, err := d.Dispatch(t.Context(), nil, item(`{"to": "bob"}`).Request, jobs.IdempotencyKey("k"))
		if !errors.Is(err, storage.ErrKeyReused) {
			t.Error(err)
		}
		if all := d.All(); len(all) != 1 || all[0].Asked != 2 || !strings.Contains(all[0].String(), "asked for 2 times") {
			t.Errorf("%v", all)
		}
		_, err = d.DispatchAll(t.Context(), nil, []jobs.Item{item(`{"to": "eve"}`), item(`{"to": "bob"}`, jobs.IdempotencyKey("k"))})
		if !errors.Is(err, storage.ErrKeyReused) || len(d.All()) != 1 {
			t.Errorf("%v, and %d jobs", err, len(d.All()))
		}
		d.Forget()
		for range 2 {
			send(t, d, `{"to": "ada"}`, jobs.UniqueWhileActive(""))
			send(t, d, `{"to": "ada"}`, jobs.UniqueFor(time.Hour, "hourly"))
			send(t, d, `{"to": "bob"}`, jobs.UniqueFor(time.Hour, "other"))
		}
		d.Count(3, "mail")
		time.Sleep(time.Hour)
		send(t, d, `{"to": "ada"}`, jobs.UniqueFor(time.Hour, "hourly"))
		d.Count(4, "mail")
		d.Forget()
		for _, to := range []string{"a", "b", "c"} {
			send(t, d, `{"to": "`+to+`"}`, jobs.Debounce(time.Minute, 90*time.Second, ""))
			time.Sleep(50 * time.Second)
		}
		if all := d.All(); len(all) != 1 || string(all[0].Job.Payload) != `{"to":"c"}` || all[0].Job.DueAt.Sub(all[0].Job.CreatedAt) != 90*time.Second {
			t.Errorf("%v, due after %s", all, all[0].Job.DueAt.Sub(all[0].Job.CreatedAt))
		}
	})
}

// In a bubble a day takes no time.
func TestDueInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := jobstest.NewDispatcher(t, mailKind())
		send(t, d, `{"to": "ada"}`)
		send(t, d, `{"to": "bob"}`, jobs.Delay(24*time.Hour))
		if _, err := d.Chain(t.Context(), nil, []jobs.Item{item(`{"to": "one"}`), item(`{"to": "two"}`)}); err != nil {
			t.Fatal(err)
		}
		if n := len(d.Due()); n != 2 {
			t.Errorf("%d are due", n)
		}
		time.Sleep(24 * time.Hour)
		if n := len(d.Due()); n != 3 {
			t.Errorf("%d are due a day later", n)
		}
	})
}

func TestChainsAndBatches(t *testing.T) {
	t.Parallel()
	d := jobstest.NewDispatcher(t, mailKind(), fileKind("file", nil))
	file := jobs.Item{Request: jobs.Request{Kind: "file", Payload: []byte(`{}`)}}
	if _, err := d.Chain(t.Context(), nil, []jobs.Item{item(`{"to": "one"}`), file, item(`{"to": "three"}`, jobs.Queue("slow"))}); err != nil {
		t.Fatal(err)
	}
	to := func(name string) jobstest.Step { return jobstest.Job("mail", jobstest.WithFields(mail{To: name})) }
	chain := d.Chained(to("one"), jobstest.Job("file"), jobstest.Job("mail", jobstest.OnQueue("slow")))
	if len(chain) != 3 || *chain[1].Job.AfterJob != chain[0].Job.ID || *chain[1].Job.WaitingFor != "chain" || chain[1].Job.Plain() || !chain[0].Job.Plain() {
		t.Errorf("%+v", chain)
	}
	then := item(`{"to": "then"}`)
	_, receipts, err := d.Batch(t.Context(), nil, jobs.BatchRequest{Title: "All", Key: "all", Jobs: []jobs.Item{item(`{"to": "a"}`), item(`{"to": "b"}`)},
		Chains: [][]jobs.Item{{item(`{"to": "c"}`), file}}, Then: &then, AllowFailures: true})
	if err != nil || len(receipts) != 4 {
		t.Fatalf("%d receipts, %v", len(receipts), err)
	}
	b := d.Batched("All", jobstest.Job("mail"), to("b"), jobstest.Job("file"), to("a"))
	if len(b.Chains) != 1 || len(b.Chains[0]) != 2 || b.Then == nil || b.Then.Title != "mail" || b.Catch != nil || b.Batch.StopOnFailure || len(d.Find("mail", jobstest.InBatch(b.Batch.ID))) != 3 {
		t.Errorf("%+v", b)
	}
	if d.Batched("").Batch.ID != b.Batch.ID || len(d.Chains()) != 2 {
		t.Error("the batch is not found by any title, or its chain is not among the chains")
	}
	if _, _, err := d.Batch(t.Context(), nil, jobs.BatchRequest{Key: "all", Jobs: []jobs.Item{item(`{"to": "a"}`)}}); !errors.Is(err, storage.ErrKeyReused) {
		t.Error(err)
	}
	wrong := func(use func(*jobstest.Dispatcher), words ...string) {
		t.Helper()
		fails(t, func(s testing.TB) {
			d := jobstest.NewDispatcher(s, mailKind())
			if _, err := d.Chain(t.Context(), nil, []jobs.Item{item(`{"to": "one"}`), item(`{"to": "two"}`)}); err != nil {
				t.Error(err)
			}
			if _, _, err := d.Batch(t.Context(), nil, jobs.BatchRequest{Title: "Some", Jobs: []jobs.Item{item(`{"to": "a"}`), item(`{"to": "b"}`)}}); err != nil {
				t.Error(err)
			}
			use(d)
		}, words...)
	}
	wrong(func(d *jobstest.Dispatcher) { d.Chained(to("two"), to("one")) }, "chain 1:", "one")
	wrong(func(d *jobstest.Dispatcher) { d.Chained(to("one")) }, "chain 1:")
	wrong(func(d *jobstest.Dispatcher) { d.Batched("Some", to("a")) }, `batch "Some":`)
	wrong(func(d *jobstest.Dispatcher) { d.Batched("Some", to("a"), to("a")) }, `batch "Some":`)
	wrong(func(d *jobstest.Dispatcher) { d.Batched("Other") }, `no batch "Other"`)
}
