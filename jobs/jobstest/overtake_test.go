package jobstest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/jobstest"
	"github.com/fenceline/fenceline/storage"
)

const bank = "CREATE SCHEMA bank; CREATE TABLE bank.accounts (balance bigint NOT NULL); INSERT INTO bank.accounts VALUES (500)"

func balance(_ context.Context, f *jobstest.Fenceline) (any, error) {
	var n int64
	f.Value(&n, "SELECT balance FROM bank.accounts")
	return n, nil
}

// takes is a handler that takes 50 from an account, in some way.
func takes(take func(ctx context.Context, w *jobs.Work, store *storage.Store) error) func(*storage.Store) []jobs.Kind {
	return func(store *storage.Store) []jobs.Kind {
		return []jobs.Kind{jobs.Handle("take", func(ctx context.Context, w *jobs.Work, _ struct{}) (any, error) {
			return w.Attempt(), take(ctx, w, store)
		})}
	}
}

func read(ctx context.Context, store *storage.Store) (n int64, err error) {
	err = store.Transaction(ctx, func(tx storage.Tx) error { return tx.Raw("SELECT balance FROM bank.accounts").Row().Scan(&n) })
	return n, err
}

func write(n int64) func(storage.Tx) error {
	return func(tx storage.Tx) error { return tx.Exec("UPDATE bank.accounts SET balance = ?", n).Error }
}

// fencedTake draws, reads, computes and writes.
func fencedTake(ctx context.Context, w *jobs.Work, store *storage.Store) error {
	fence, err := w.Fence(ctx, "account:1")
	if err != nil {
		return err
	}
	n, err := read(ctx, store)
	if err != nil {
		return err
	}
	w.Progress(1, 2, "read")
	jobstest.Here(ctx, "computing")
	return fence.Write(ctx, write(n-50))
}

func open(t testing.TB, take func(context.Context, *jobs.Work, *storage.Store) error) *jobstest.Fenceline {
	t.Helper()
	return jobstest.StartWith(t, jobstest.Setup{SQL: bank, NoWorker: true, Kinds: takes(take), Patience: 20 * time.Second})
}

// However the first run is stopped, the fence refuses it.
func TestAFencedHandlerSurvivesBeingOvertaken(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]jobstest.Moment{
		"write": {}, "fence": jobstest.BeforeFence(1), "progress": jobstest.AfterProgress(1), "here": jobstest.AtHere("computing"),
		"sql": jobstest.BeforeSQL("SELECT balance", 1),
	} {
		for _, told := range []bool{false, true} {
			t.Run(fmt.Sprint(name, told), func(t *testing.T) {
				t.Parallel()
				got := open(t, fencedTake).Overtake("take", nil, jobstest.Overtaking{At: at, State: balance, Told: told})
				if got.Before != int64(450) || got.After != int64(450) {
					t.Errorf("the balance was %v and became %v", got.Before, got.After)
				}
				if got.Second.Outcome != jobstest.Done || string(got.Second.JSON) != "2" || got.Job.State != storage.JobDone || got.Job.Crashes != 1 {
					t.Errorf("second %+v, job %+v", got.Second, got.Job)
				}
				var fenced *storage.FencedError
				if got.First.Outcome != jobstest.HandedOn && got.First.Outcome != jobstest.Released || !errors.As(got.First.Err, &fenced) {
					t.Errorf("first %+v", got.First)
				}
				if !told && (got.FirstCause != nil || len(got.Writes) != 1 || got.Writes[0] == nil || !strings.Contains(got.Writes[0].Error(), "is refused")) {
					t.Errorf("cause %v, writes %v", got.FirstCause, got.Writes)
				}
				if told && !errors.Is(got.FirstCause, storage.ErrFenced) {
					t.Errorf("cause %v", got.FirstCause)
				}
			})
		}
	}
}

// What a handler does past its fence is seen, and the test told why.
func TestAHandlerThatWritesPastItsFenceFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at    jobstest.Moment
		take  func(context.Context, *jobs.Work, *storage.Store) error
		words []string
	}{
		"no fence": {jobstest.AtHere("computing"), unfencedTake, []string{"it was 1450 and became 450", "Nothing was written under a fence", "Work.Fence"}},
		"beside the fence": {jobstest.BeforeWrite(1), func(ctx context.Context, w *jobs.Work, store *storage.Store) error {
			fence, err := w.Fence(ctx, "account:1")
			if err != nil {
				return err
			}
			err = fence.Write(ctx, func(storage.Tx) error { return nil })
			return errors.Join(err, store.Transaction(ctx, func(tx storage.Tx) error {
				return tx.Exec("UPDATE bank.accounts SET balance = balance - 50").Error // whatever the fence has said
			}))
		}, []string{"it was 1450 and became 1400", "past the fence"}},
		"a token of its own": {jobstest.AtHere("before"), func(ctx context.Context, w *jobs.Work, store *storage.Store) error {
			jobstest.Here(ctx, "before")
			fence, err := jobs.Fence(ctx, store, "default", "account:1", "take") // knows nothing of the run
			if err != nil {
				return err
			}
			n, err := read(ctx, store)
			if err != nil {
				return err
			}
			return fence.Write(ctx, write(n-50))
		}, []string{"drew that token after it had been overtaken", "account:1", "it was 1450 and became 1400"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deposit := func(ctx context.Context, f *jobstest.Fenceline) error {
				return f.Store.Exec(ctx, "UPDATE bank.accounts SET balance = balance + 1000")
			}
			fails(t, func(s testing.TB) {
				open(s, c.take).Overtake("take", nil, jobstest.Overtaking{At: c.at, State: balance, Meanwhile: deposit})
			}, c.words...)
		})
	}
	t.Run("the same value", func(t *testing.T) {
		t.Parallel()
		fails(t, func(s testing.TB) {
			open(s, unfencedTake).Overtake("take", nil, jobstest.Overtaking{At: jobstest.AtHere("computing"), State: func(_ context.Context, f *jobstest.Fenceline) (any, error) {
				var row string
				f.Value(&row, "SELECT balance || ' of ' || xmin FROM bank.accounts")
				return row, nil
			}})
		}, "it was 450 of ", "became 450 of ")
	})
}

// unfencedTake reads, computes and writes.
func unfencedTake(ctx context.Context, _ *jobs.Work, store *storage.Store) error {
	n, err := read(ctx, store)
	if err != nil {
		return err
	}
	jobstest.Here(ctx, "computing")
	return store.Transaction(ctx, write(n-50))
}

func TestOvertakingThatDoesNotComeToPass(t *testing.T) {
	t.Parallel()
	fails(t, func(t testing.TB) {
		open(t, fencedTake).Overtake("take", nil, jobstest.Overtaking{At: jobstest.AtHere("elsewhere")})
	}, "without coming to the moment", "elsewhere", "done")
	fails(t, func(t testing.TB) {
		open(t, fencedTake).Overtake("take", nil, jobstest.Overtaking{Options: []jobs.Option{jobs.Delay(time.Hour)}})
	}, "cannot begin", "later")
	fails(t, func(t testing.TB) {
		f := open(t, func(ctx context.Context, w *jobs.Work, _ *storage.Store) error {
			jobstest.Here(ctx, "x")
			return errors.New("no luck")
		})
		f.Overtake("take", nil, jobstest.Overtaking{At: jobstest.AtHere("x")})
	}, "the second run", "no luck")
	fails(t, func(t testing.TB) {
		jobstest.Start(t, mailKind()).Overtake("mail", mail{To: "ada"}, jobstest.Overtaking{})
	}, "NoWorker")
}

// A frozen run that holds a row lock keeps the second one out: the test says so and does not hang.
func TestOvertakingARunThatHoldsLocks(t *testing.T) {
	t.Parallel()
	fails(t, func(t testing.TB) {
		f := jobstest.StartWith(t, jobstest.Setup{SQL: bank, NoWorker: true, Patience: 300 * time.Millisecond, Kinds: takes(func(ctx context.Context, _ *jobs.Work, store *storage.Store) error {
			return store.Transaction(ctx, func(tx storage.Tx) error {
				err := tx.Exec("UPDATE bank.accounts SET balance = balance - 50").Error
				jobstest.Here(ctx, "locked")
				return err
			})
		})})
		f.Overtake("take", nil, jobstest.Overtaking{At: jobstest.AtHere("locked")})
	}, "row locks", "locked")
}

// Of an export only the newest attempt counts, wherever the other one stood.
func TestAnExportThatIsOvertaken(t *testing.T) {
	t.Parallel()
	for _, p := range []jobs.Point{jobs.PointLeased, jobs.PointBegun, jobs.PointWritten, jobs.PointCommitted, jobs.PointSealed} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			texts := make(chan string, 2)
			texts <- "one"
			texts <- "two"
			f := jobstest.StartWith(t, jobstest.Setup{NoWorker: true}, fileKind("file", func() string { return <-texts }))
			got := f.Overtake("file", nil, jobstest.Overtaking{At: jobstest.AtPoint(p)})
			if got.First.Outcome != jobstest.HandedOn || got.Second.Outcome != jobstest.Done || got.Job.State != storage.JobDone {
				t.Errorf("first %+v, second %+v", got.First, got.Second)
			}
			want := "two"
			if p == jobs.PointLeased || p == jobs.PointBegun {
				want = "one" // the second run was the first to ask
			}
			if text := string(f.Published(got.Job)["out.txt"]); text != want {
				t.Errorf("published is %q", text)
			}
			if p != jobs.PointLeased && (len(got.Attempts) != 2 || got.Attempts[0].State != storage.AttemptPublished || got.Attempts[1].State != storage.AttemptFenced) {
				t.Errorf("attempts %+v", got.Attempts)
			}
		})
	}
	fails(t, func(t testing.TB) {
		jobstest.Overtake(t, fileKind("file", func() string { return "" }), nil, jobstest.Overtaking{At: jobstest.AtPoint(jobs.PointPublished)})
	}, "nothing can overtake it any more")
}
