package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// What the balance is, and what A and B take from it.
const (
	labBalance = 500
	labLessA   = 60
	labLessB   = 50
	labRight   = labBalance - labLessB // A is refused, and has to begin anew
	labWrong   = labBalance - labLessA // A's write replaced B's
)

// Those who appear in a timeline of the lab.
const (
	labA   = "A"
	labB   = "B"
	labOwn = "lab"
)

// errDistorted means that the machine was too busy for the story: a lease was lost before anything was done to its holder.
var errDistorted = errors.New("a lease was lost before the fault; this machine seems to be very busy: run the lab again, or give a longer --lease")

// labStory is one fault on one backend. Only one goroutine uses it.
type labStory struct {
	source  labSource
	fault   labFault
	lease   time.Duration
	servers *labServers
	account *storage.LabAccount
	id      string // of the account and the lease
	a, b    *labHand
	proxy   *labProxy // that A goes through; nil when it goes straight
	// A and B reach the service at these addresses.
	addressA, addressB string
	failover           *labReplica
	began, hurt        time.Time
	events             []labMoment
}

// labMoment is an event before times are counted from the story's beginning.
type labMoment struct {
	at time.Time
	storage.LabEvent
}

// labHand is a holder and the way to tell it what to do.
type labHand struct {
	*drillWorker
	orders *os.File
}

func (h *labHand) do(order string) error {
	if _, err := fmt.Fprintln(h.orders, order); err != nil {
		return fmt.Errorf("tell %s to %s: %w; it said last: %s", h.label, order, err, h.output.last())
	}
	return nil
}

// end lets the holder go, whatever became of it.
func (h *labHand) end() {
	if h == nil {
		return
	}
	_ = h.orders.Close() // it reads to the end of its orders and is done
	_ = h.stop(5 * time.Second)
}

// hand starts a holder with a brief, to which it adds what is the same for both.
func (s *labStory) hand(ctx context.Context, b labBrief) (*labHand, error) {
	b.Database, b.Account, b.Prefix, b.TTL = s.servers.scratch, s.id, s.id+":", s.lease
	in, orders, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", b.Label, err)
	}
	defer in.Close()
	w, err := spawnSelf(ctx, b.Label, in, []string{"GOMAXPROCS=1"}, "lab", "holder")
	if err != nil {
		_ = orders.Close()
		return nil, err
	}
	h := &labHand{w, orders}
	brief, err := json.Marshal(b)
	if err == nil {
		err = h.do(string(brief))
	}
	return h, err
}

// open brings everything to the moment before A takes the lease.
func (s *labStory) open(ctx context.Context) (err error) {
	s.id = drillID()
	s.account = s.servers.store.LabAccount(s.id)
	if err := s.account.Open(ctx, labBalance); err != nil {
		return err
	}
	s.addressA, s.addressB = s.source.address, s.source.address
	if s.fault.prepare != nil {
		if err := s.fault.prepare(s, ctx); err != nil {
			return err
		}
	}
	a := labBrief{Label: labA, Lease: s.addressA, Less: labLessA}
	if s.proxy != nil {
		a.Route = s.proxy.route()
	}
	if s.a, err = s.hand(ctx, a); err != nil {
		return err
	}
	if s.b, err = s.hand(ctx, labBrief{Label: labB, Lease: s.addressB, Less: labLessB}); err != nil {
		return err
	}
	if err := s.hears(ctx, s.a, heldReady); err != nil {
		return err
	}
	return s.hears(ctx, s.b, heldReady)
}

func (s *labStory) close() {
	s.a.end()
	s.b.end()
	if s.proxy != nil {
		s.proxy.close()
	}
	if s.failover != nil {
		s.failover.close()
	}
}

// play opens, tells and judges the story, again when the machine distorted it.
func (s *labStory) play(ctx context.Context) (storage.LabFault, error) {
	for tries := 1; ; tries++ {
		again := &labStory{source: s.source, fault: s.fault, lease: s.lease, servers: s.servers}
		result, err := again.once(ctx)
		if err == nil || ctx.Err() != nil || tries == 3 || !errors.Is(err, errDistorted) {
			return result, err
		}
	}
}

func (s *labStory) once(ctx context.Context) (storage.LabFault, error) {
	defer s.close()
	if err := s.open(ctx); err != nil {
		return storage.LabFault{}, err
	}
	s.began = time.Now()
	if err := s.fault.story(s, ctx); err != nil {
		return storage.LabFault{}, err
	}
	if err := s.lets(ctx, s.b, doRelease, heldReleased); err != nil {
		return storage.LabFault{}, err
	}
	fenced, unfenced, err := s.account.Read(ctx)
	if err != nil {
		return storage.LabFault{}, err
	}
	return s.judge(fenced, unfenced)
}

// patience is how long a story waits for one thing.
func (s *labStory) patience() time.Duration { return 3*s.lease + 30*time.Second }

// hears waits until a holder has said one of these.
func (s *labStory) hears(ctx context.Context, h *labHand, msgs ...string) error {
	err := poll(ctx, 5*time.Millisecond, s.patience(), h.label+" "+strings.Join(msgs, " or "), func() (bool, error) {
		return slices.ContainsFunc(msgs, h.output.says), h.alive()
	})
	if err != nil {
		return fmt.Errorf("%s, %s: %w; %s said last: %s", s.source.name, s.fault.name, err, h.label, h.output.last())
	}
	return nil
}

// lets tells a holder to do something and waits until it has said so.
func (s *labStory) lets(ctx context.Context, h *labHand, order string, msgs ...string) error {
	if err := h.do(order); err != nil {
		return err
	}
	return s.hears(ctx, h, msgs...)
}

// note adds an event that the lab has brought about just now.
func (s *labStory) note(who, kind, format string, args ...any) {
	s.events = append(s.events, labMoment{time.Now(), storage.LabEvent{Who: who, Kind: kind, What: fmt.Sprintf(format, args...)}})
}

// hurts notes what is done to A or to the service: from here on takeovers are counted.
func (s *labStory) hurts(who, kind, format string, args ...any) {
	s.note(who, kind, format, args...)
	s.hurt = s.events[len(s.events)-1].at
}

// begins lets A take the lease, read, and look once more at its lease.
func (s *labStory) begins(ctx context.Context) error {
	if err := s.lets(ctx, s.a, doTake, heldRead); err != nil {
		return err
	}
	if err := s.lets(ctx, s.a, doLook, heldLooked); err != nil {
		return err
	}
	if s.a.output.says(heldLost) {
		return errDistorted
	}
	return nil
}

// writes lets a holder write both balances.
func (s *labStory) writes(ctx context.Context, h *labHand) error {
	return s.lets(ctx, h, doWrite, heldAccepted, heldRefused)
}

// follows lets B take the lease, as soon as it can be had, and write.
func (s *labStory) follows(ctx context.Context) error {
	if err := s.lets(ctx, s.b, doTake, heldRead); err != nil {
		return err
	}
	return s.writes(ctx, s.b)
}

// rests lets time pass.
func rests(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
