package jobstest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/jobstest"
	"github.com/fenceline/fenceline/storage"
)

// Withdrawal is the payload of the jobs that the examples test.
type Withdrawal struct {
	Account string `json:"account"`
	Cents   int64  `json:"cents"`
}

// WithdrawKind takes money from an account. It draws a token before it reads, and
// writes under it.
func WithdrawKind(store *storage.Store) jobs.Kind {
	return jobs.Handle("withdraw", func(ctx context.Context, w *jobs.Work, in Withdrawal) (any, error) {
		fence, err := w.Fence(ctx, "account:"+in.Account)
		if err != nil {
			return nil, err
		}
		var cents int64
		err = store.Transaction(ctx, func(tx storage.Tx) error {
			return tx.Raw("SELECT cents FROM shop.accounts WHERE id = ?", in.Account).Row().Scan(&cents)
		})
		if err != nil {
			return nil, err
		}
		cents -= in.Cents
		return cents, fence.Write(ctx, func(tx storage.Tx) error {
			return tx.Exec("UPDATE shop.accounts SET cents = ? WHERE id = ?", cents, in.Account).Error
		})
	})
}

// Order is code that dispatches jobs. It takes a *jobs.Dispatcher, as in production.
func Order(ctx context.Context, d *jobs.Dispatcher, account string) (uuid.UUID, error) {
	r, err := d.Dispatch(ctx, nil, jobs.Request{Kind: "withdraw", Payload: fmt.Appendf(nil, `{"account": %q, "cents": 500}`, account)},
		jobs.Delay(24*time.Hour), jobs.Tags("order"))
	return r.Job.ID, err
}

// README: from here on it is in README.md, word by word.

func TestOrder(t *testing.T) { // what did my code dispatch? No database.
	fake := jobstest.NewDispatcher(t, WithdrawKind(nil))
	if _, err := Order(t.Context(), fake.Dispatcher, "1"); err != nil {
		t.Fatal(err)
	}
	fake.Dispatched("withdraw", jobstest.Delayed(24*time.Hour), jobstest.WithFields(Withdrawal{Account: "1", Cents: 500}))
}

const accounts = "CREATE SCHEMA shop; CREATE TABLE shop.accounts (id text, cents bigint); INSERT INTO shop.accounts VALUES ('1', 2000)"

func setup(s *storage.Store) []jobs.Kind { return []jobs.Kind{WithdrawKind(s)} }

func TestWithdrawTomorrow(t *testing.T) { // does it all work? PostgreSQL, Redis, a worker, and a day that passes.
	f := jobstest.StartWith(t, jobstest.Setup{SQL: accounts, Kinds: setup})
	job, err := Order(t.Context(), f.Dispatcher, "1")
	if err != nil {
		t.Fatal(err)
	}
	f.Travel(24 * time.Hour)
	f.WaitFor(job, storage.JobDone)
}

func TestWithdrawSurvivesAPause(t *testing.T) { // a run freezes before it writes, another one does the work, the first wakes up
	f := jobstest.StartWith(t, jobstest.Setup{SQL: accounts, Kinds: setup, NoWorker: true})
	f.Overtake("withdraw", Withdrawal{"1", 500}, jobstest.Overtaking{State: func(ctx context.Context, f *jobstest.Fenceline) (any, error) {
		var cents int64
		f.Value(&cents, "SELECT cents FROM shop.accounts")
		return cents, nil
	}})
}

// README: up to here.

// The functions of the package take a test, so what a runnable example shows is
// what a failure says.
func ExampleNewDispatcher() {
	t := &spy{}
	fake := jobstest.NewDispatcher(t, WithdrawKind(nil))
	if _, err := Order(context.Background(), fake.Dispatcher, "1"); err != nil {
		fmt.Println(err)
	}
	fake.Count(1, "withdraw", jobstest.Tagged("order"))
	fake.Count(1, "withdraw", jobstest.OnQueue("slow"))
	for _, says := range t.says {
		fmt.Println(says)
	}
	// Output:
	// 0 jobs withdraw on queue slow were dispatched, want 1; of this kind there are:
	//   1. withdraw {"account":"1","cents":500} · queue default · tags order · delay 24h0m0s
	//      not on queue slow
}

// One run of a handler, with no more around it than the test gives it.
func ExampleRun() {
	greet := jobs.Handle("greet", func(_ context.Context, w *jobs.Work, in struct{ Name string }) (any, error) {
		if w.Attempt() < 2 {
			return nil, fmt.Errorf("nobody is at home")
		}
		return "Hello " + in.Name, nil
	})
	test := func(t testing.TB) {
		first := jobstest.Run(t, greet, `{"Name": "Ada"}`, jobstest.With(jobs.BackoffFixed(time.Minute)))
		fmt.Println(first.Outcome, first.Err, first.Delay)
		second := jobstest.Run(t, greet, `{"Name": "Ada"}`, jobstest.OnAttempt(2))
		fmt.Println(second.Outcome, string(second.JSON))
	}
	test(&spy{})
	// Output:
	// failed nobody is at home 1m0s
	// done "Hello Ada"
}
