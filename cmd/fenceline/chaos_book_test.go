package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
)

// booking adds one to an account: it reads, takes its time, and writes what it
// has worked out, behind a fence.
type booking struct {
	Account int `json:"account"`
	Millis  int `json:"millis"`
}

const chaosAccounts = 3

// bookKind are plain jobs that would lose updates if a stale one could write, and
// book twice if a repeated one did not see what the first has done.
func bookKind(url string) jobs.Kind {
	return jobs.Handle("book", func(ctx context.Context, w *jobs.Work, in booking) (any, error) {
		fence, err := w.Fence(ctx, fmt.Sprint("account:", in.Account))
		if err != nil {
			return nil, err
		}
		balance, err := readBalance(ctx, url, in.Account)
		if err != nil {
			return nil, err
		}
		timer := time.NewTimer(time.Duration(in.Millis) * time.Millisecond)
		defer timer.Stop()
		<-timer.C // deaf: a frozen process does not hear either
		return balance + 1, fence.Write(ctx, func(tx storage.Tx) error {
			res := tx.Exec("INSERT INTO bookings (job, account) VALUES (?, ?) ON CONFLICT DO NOTHING", w.Job().ID, in.Account)
			if res.Error != nil || res.RowsAffected == 0 {
				return res.Error
			}
			return tx.Exec("UPDATE accounts SET balance = ? WHERE id = ?", balance+1, in.Account).Error
		})
	})
}

func readBalance(ctx context.Context, url string, account int) (balance int64, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = conn.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = $1", account).Scan(&balance)
	return balance, err
}

// book dispatches bookings, in bulk now and then.
func (c *chaos) book(ctx context.Context, rng *rand.Rand) {
	every(ctx, rng, 200*time.Millisecond, func() {
		items := make([]jobs.Item, 1+rng.IntN(3))
		for i := range items {
			raw, err := json.Marshal(booking{Account: rng.IntN(chaosAccounts), Millis: rng.IntN(100)})
			c.must(err)
			items[i] = jobs.Item{Request: jobs.Request{Kind: "book", Payload: raw}, Options: []jobs.Option{jobs.IdempotencyKey(uuid.NewString())}}
		}
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		for try.Err() == nil {
			receipts, err := c.disp.DispatchAll(try, nil, items, jobs.MaxAttempts(1000), jobs.BackoffFixed(100*time.Millisecond), jobs.Timeout(5*time.Second))
			if err != nil {
				continue
			}
			c.mu.Lock()
			for _, r := range receipts {
				c.booked = append(c.booked, r.Job.ID)
			}
			c.mu.Unlock()
			return
		}
	})
}

// checkBookings: every booking that was accepted and is done is in the books once,
// and every account holds what its bookings say.
func (c *chaos) checkBookings() {
	c.t.Helper()
	var wrong string
	c.must(c.scan(&wrong, `SELECT coalesce(string_agg(format('account %s: balance %s after %s bookings', id, balance, n), '; '), '')
		FROM (SELECT a.id, a.balance, (SELECT count(*) FROM bookings b WHERE b.account = a.id) AS n FROM accounts a) x WHERE balance <> n`))
	if wrong != "" {
		c.t.Errorf("updates were lost: %s", wrong)
	}
	for _, id := range c.booked {
		job, err := c.store.Job(c.t.Context(), everything, id)
		if err != nil {
			c.t.Errorf("a booking that was accepted is gone: %v", err)
			continue
		}
		c.stats["booking "+string(job.State)]++
		var there bool
		c.must(c.scan(&there, "SELECT EXISTS (SELECT FROM bookings WHERE job = $1)", id))
		if job.State == storage.JobDone && !there {
			c.t.Errorf("booking %s is done and not in the books", id)
		}
	}
	if c.stats["booking done"] == 0 {
		c.t.Error("no booking was done: the test shows nothing")
	}
}
