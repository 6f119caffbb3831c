package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
)

// What the lab tells a holder to do, a line each.
const (
	doTake    = "take"    // the lease, as soon as it is had, and read the balances
	doLook    = "look"    // whether it still holds the lease
	doWrite   = "write"   // both balances, whatever became of the lease
	doRelease = "release" // the lease
	doAsk     = "ask"     // for the lease once more
)

// What a holder logs; the events of a timeline are made of it.
const (
	heldReady    = "ready"
	heldBusy     = "asked for the lease"
	heldTook     = "took the lease"
	heldRead     = "read the balance"
	heldLooked   = "looked at its lease"
	heldLost     = "learned that its lease is lost"
	heldReleased = "released the lease"
	heldWrote    = "wrote where no fence is"
	heldAccepted = "wrote behind the fence"
	heldRefused  = "was refused by the fence"
	heldAgain    = "asked once more"
)

// gotIt is the answer to somebody who asks for a lease and gets it.
const gotIt = "it got it"

// askEvery is how often a holder asks for a lease that somebody else has.
const askEvery = 40 * time.Millisecond

// labBrief is the first line that a holder reads. It comes this way because it holds secrets.
type labBrief struct {
	Label    string
	Lease    string // address, or none
	Route    labRoute
	Database string // where the account is
	Account  string // and name of the lease
	Prefix   string
	TTL      time.Duration
	Less     int64 // what it takes from the balance
}

// labHolderCmd is holder A or B: a program as many are, which takes a lease, reads, computes and writes.
func (c *cli) labHolderCmd() *cobra.Command {
	return &cobra.Command{Use: "holder", Hidden: true, Args: exactly(), Short: "Hold a lease as the lab says, on standard input",
		RunE: func(cmd *cobra.Command, _ []string) error {
			in := bufio.NewReader(c.in)
			line, err := in.ReadBytes('\n')
			if err != nil {
				return fmt.Errorf("the lab starts this by itself: %w", err)
			}
			var b labBrief
			if err := json.Unmarshal(line, &b); err != nil {
				return fmt.Errorf("the lab starts this by itself: %w", err)
			}
			return c.hold(cmd.Context(), b, in)
		}}
}

// labHolder is a holder at work. Only one goroutine gives it orders.
type labHolder struct {
	labBrief
	cli     *cli
	leaser  jobs.Leaser
	account *storage.LabAccount
	lease   *jobs.Lease
	fence   storage.Fence
	fenced  int64 // as it was read
	plain   int64
}

func (c *cli) hold(ctx context.Context, b labBrief, in *bufio.Reader) error {
	h := &labHolder{labBrief: b, cli: c}
	store, err := storage.Open(ctx, b.Database, storage.Options{MaxConns: 2})
	if err != nil {
		return err
	}
	defer store.Close()
	h.account = store.LabAccount(b.Account)
	leaser, end, err := openLabLeaser(ctx, b.Lease, jobs.LeaseOptions{Owner: "lab " + b.Label, Prefix: b.Prefix, TTL: b.TTL, Dial: b.Route.dialer()})
	if err != nil {
		return err
	}
	defer end()
	h.leaser = leaser
	c.log.Info(heldReady)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil // the lab has heard enough
		}
		if err := h.obey(ctx, line[:len(line)-1]); err != nil {
			return err
		}
	}
}

func (h *labHolder) obey(ctx context.Context, order string) error {
	switch order {
	case doTake:
		return h.take(ctx)
	case doLook:
		h.look()
	case doWrite:
		return h.write(ctx)
	case doRelease:
		return h.release(ctx)
	case doAsk:
		return h.askAgain(ctx)
	default:
		return fmt.Errorf("the lab wants %q of a holder, which knows no such thing", order)
	}
	return nil
}

// take asks until it has the lease, draws a token and reads.
func (h *labHolder) take(ctx context.Context) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	told := ""
	for {
		lease, err := h.leaser.Acquire(ctx, h.Account)
		if err == nil {
			h.lease = lease
			break
		}
		if answer := answerOf(err); answer != told {
			told = answer
			h.cli.log.Info(heldBusy, "said", answer)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	h.cli.log.Info(heldTook, "order", h.lease.Order().String())
	go h.watch(h.lease)
	var err error
	if h.fence, err = h.account.Fence(ctx, h.Label); err != nil {
		return err
	}
	if h.fenced, h.plain, err = h.account.Read(ctx); err != nil {
		return err
	}
	h.cli.log.Info(heldRead, "token", h.fence.Token(), "said", fmt.Sprintf("%d, under token %d", h.plain, h.fence.Token()))
	return nil
}

// answerOf is a refusal in words that hold no address.
func answerOf(err error) string {
	if errors.Is(err, jobs.ErrLeaseBusy) {
		return "somebody else has it"
	}
	return "no answer"
}

// watch tells when the lease is lost: to this process, which may have been frozen when it was.
func (h *labHolder) watch(lease *jobs.Lease) {
	<-lease.Context().Done()
	if errors.Is(context.Cause(lease.Context()), jobs.ErrLeaseLost) {
		h.cli.log.Info(heldLost)
	}
}

// look is all that a lock can offer to a program that is about to write.
func (h *labHolder) look() {
	answer := "it holds it, so it will write"
	if h.lease.Context().Err() != nil {
		answer = "it has lost it"
	}
	h.cli.log.Info(heldLooked, "said", answer)
}

// write writes what was made of the balance that was read.
func (h *labHolder) write(ctx context.Context) error {
	if err := h.account.Overwrite(ctx, h.plain-h.Less); err != nil {
		return err
	}
	h.cli.log.Info(heldWrote, "value", h.plain-h.Less, "said", fmt.Sprintf("%d − %d = %d; PostgreSQL reported success", h.plain, h.Less, h.plain-h.Less))
	err := h.account.Write(ctx, h.fence, h.fenced-h.Less)
	var refused *storage.FencedError
	switch {
	case errors.As(err, &refused):
		h.cli.log.Info(heldRefused, "token", h.fence.Token(), "value", h.fenced-h.Less, "said", fmt.Sprintf("token %d has written since token %d was drawn", refused.By, h.fence.Token()))
	case err != nil:
		return err
	default:
		h.cli.log.Info(heldAccepted, "token", h.fence.Token(), "value", h.fenced-h.Less, "said", fmt.Sprintf("%d − %d = %d, under token %d", h.fenced, h.Less, h.fenced-h.Less, h.fence.Token()))
	}
	return nil
}

// release gives back what may be somebody else's by now.
func (h *labHolder) release(ctx context.Context) error {
	asked, cancel := context.WithTimeout(ctx, h.TTL)
	defer cancel()
	answer := ""
	if err := h.lease.Release(asked); err != nil { // as when it is cut off from the service
		answer = "no answer"
	}
	h.cli.log.Info(heldReleased, "said", answer)
	return nil
}

// askAgain asks once, until an answer comes, and keeps what it gets.
func (h *labHolder) askAgain(ctx context.Context) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		lease, err := h.leaser.Acquire(ctx, h.Account)
		if err == nil {
			h.lease = lease
			h.cli.log.Info(heldAgain, "said", gotIt)
			return nil
		}
		if errors.Is(err, jobs.ErrLeaseBusy) {
			h.cli.log.Info(heldAgain, "said", answerOf(err))
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
