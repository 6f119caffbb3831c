package jobs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/calendar"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report"
	"github.com/fenceline/fenceline/storage"
)

// Schedules are jobs by the clock: they are kept, checked and fired here. It is safe
// for concurrent use, and any number may work on one database.
//
// A schedule is kept by [Schedules.Put], or comes from a file ([Schedules.Sync]). What
// it does at clock changes is said in package calendar.
type Schedules struct {
	store      *storage.Store
	dispatcher *Dispatcher
	log        *slog.Logger
	now        time.Time // of tests; zero is the database's clock
}

// NewSchedules prepares schedules whose jobs go through a dispatcher.
func NewSchedules(store *storage.Store, d *Dispatcher, log *slog.Logger) *Schedules {
	return &Schedules{store: store, dispatcher: d, log: log}
}

// ScheduleOptions are how the jobs of a schedule run; the zero value leaves it to the
// dispatch. In JSON the timeout is a duration such as "90s" or "1h".
type ScheduleOptions struct {
	Queue       string        `json:"queue,omitempty"`
	Priority    int           `json:"priority,omitempty"`
	Tags        []string      `json:"tags,omitempty"`
	MaxAttempts int           `json:"max_attempts,omitempty"`
	Timeout     time.Duration `json:"-"`
}

// scheduleOptionsJSON is how they are kept.
type scheduleOptionsJSON struct {
	ScheduleOptions
	Timeout string `json:"timeout,omitempty"`
}

// JSON is the options as a schedule keeps them.
func (o ScheduleOptions) JSON() json.RawMessage {
	kept := scheduleOptionsJSON{ScheduleOptions: o}
	if o.Timeout != 0 {
		kept.Timeout = o.Timeout.String()
	}
	raw, _ := json.Marshal(kept) // numbers and text always can
	return raw
}

// ParseScheduleOptions reads options; what is wrong with them is an [*invalid.Error].
func ParseScheduleOptions(raw json.RawMessage) (ScheduleOptions, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return ScheduleOptions{}, nil
	}
	var kept scheduleOptionsJSON
	if err := strictJSON(raw, &kept, "options"); err != nil {
		return ScheduleOptions{}, err
	}
	if err := invalid.Twice(raw); err != nil {
		return ScheduleOptions{}, err
	}
	o := kept.ScheduleOptions
	if kept.Timeout != "" {
		d, err := time.ParseDuration(kept.Timeout)
		if err != nil || d == 0 {
			return o, invalid.New("options.timeout", kept.Timeout, "must be a duration such as 90s or 1h")
		}
		o.Timeout = d
	}
	if o.MaxAttempts < 0 {
		return o, invalid.New("options.max_attempts", fmt.Sprint(o.MaxAttempts), "must be 1 to 1000")
	}
	return o, nil
}

func (o ScheduleOptions) list() (list []Option) {
	if o.Queue != "" {
		list = append(list, Queue(o.Queue))
	}
	if o.Priority != 0 {
		list = append(list, Priority(o.Priority))
	}
	if len(o.Tags) > 0 {
		list = append(list, Tags(o.Tags...))
	}
	if o.MaxAttempts != 0 {
		list = append(list, MaxAttempts(o.MaxAttempts))
	}
	if o.Timeout != 0 {
		list = append(list, Timeout(o.Timeout))
	}
	return list
}

// ParseCron reads a cron expression, as package calendar says, and a time zone by its
// IANA name.
func ParseCron(expression, zone string) (calendar.Cron, *time.Location, error) {
	refused := new(invalid.Error)
	loc, err := report.LoadZone(zone)
	if err != nil {
		refused.Add("zone", zone, "%s", err)
	}
	c, err := calendar.Parse(expression)
	if err != nil {
		refused.Add("cron", expression, "%s", err)
	}
	return c, loc, refused.OrNil()
}

// NextFires are the next n fire times of a schedule after an instant, fewer when there
// are no more.
func NextFires(sc storage.Schedule, after time.Time, n int) ([]calendar.Fire, error) {
	c, zone, err := ParseCron(sc.Cron, sc.Zone)
	if err != nil {
		return nil, err
	}
	var list []calendar.Fire
	for len(list) < n {
		f, ok := c.Next(after, zone)
		if !ok {
			break
		}
		list, after = append(list, f), f.At
	}
	return list, nil
}

// ScheduleView is a schedule with its newest run and its next fire times, none while it
// is paused or when they cannot be told.
type ScheduleView struct {
	storage.ScheduleSummary
	Next []time.Time `json:"next"` // in its zone
}

// nextShown is how many fire times are shown of one schedule.
const nextShown = 5

// Show reads one schedule with its next five fire times; [storage.ErrNotFound] also when
// the scope does not see it.
func (s *Schedules) Show(ctx context.Context, scope storage.Scope, name string) (ScheduleView, error) {
	sc, err := s.store.Schedule(ctx, scope, name)
	if err != nil {
		return ScheduleView{}, err
	}
	now, err := s.store.Now(ctx)
	return view(sc, now, nextShown), err
}

// List lists schedules by name, each with its next fire time.
func (s *Schedules) List(ctx context.Context, scope storage.Scope, f storage.ScheduleFilter) (storage.Page[ScheduleView], error) {
	list, err := s.store.Schedules(ctx, scope, f)
	if err != nil {
		return storage.Page[ScheduleView]{}, err
	}
	now, err := s.store.Now(ctx)
	page := storage.Page[ScheduleView]{Items: make([]ScheduleView, len(list.Items)), Next: list.Next}
	for i, sc := range list.Items {
		page.Items[i] = view(sc, now, 1)
	}
	return page, err
}

func view(sc storage.ScheduleSummary, now time.Time, n int) ScheduleView {
	v := ScheduleView{ScheduleSummary: sc, Next: []time.Time{}}
	if sc.PausedAt != nil {
		return v
	}
	fires, _ := NextFires(sc.Schedule, now, n) // what is wrong stands in its problem
	for _, f := range fires {
		v.Next = append(v.Next, f.At)
	}
	return v
}

// Put adds a schedule or changes the one of its name, for somebody whose name is
// recorded, and answers whether it is new. Empty fields get their defaults: zone UTC,
// missed once, [DefaultTenant]. What is wrong with it is an [*invalid.Error]; others are
// [storage.ErrFromFile] and [storage.ErrNameTaken].
func (s *Schedules) Put(ctx context.Context, scope storage.Scope, sc storage.Schedule, who string) (saved storage.ScheduleSummary, created bool, err error) {
	if sc, err = s.Check(ctx, sc); err != nil {
		return storage.ScheduleSummary{}, false, err
	}
	sc.ChangedBy = who
	return s.store.PutSchedule(ctx, scope, sc)
}

// Check refuses what could not be kept, and what would be refused if the schedule fired
// at its next time, and answers it with its defaults.
func (s *Schedules) Check(ctx context.Context, sc storage.Schedule) (storage.Schedule, error) {
	sc.Zone, sc.Tenant = cmp.Or(sc.Zone, "UTC"), cmp.Or(sc.Tenant, DefaultTenant)
	sc.Missed = cmp.Or(sc.Missed, storage.MissedOnce)
	refused := new(invalid.Error)
	if !namePattern.MatchString(sc.Name) {
		refused.Add("name", sc.Name, "must be 1 to 63 letters, digits, dots, hyphens or underscores")
	}
	if sc.Missed != storage.MissedSkip && sc.Missed != storage.MissedOnce && sc.Missed != storage.MissedAll {
		refused.Add("missed", sc.Missed, "must be skip, once or all")
	}
	c, zone, errTimes := ParseCron(sc.Cron, sc.Zone)
	o, errOptions := ParseScheduleOptions(sc.Options)
	sc.Options = o.JSON()
	if err := invalid.Join(refused.OrNil(), errTimes, errOptions, invalid.Twice(sc.Payload)); err != nil {
		return sc, err
	}
	// An unknown kind is for prepare to refuse.
	if kind, err := s.dispatcher.registry.kind(sc.Kind); err == nil && len(kind.Secret) > 0 {
		return sc, invalid.New("kind", sc.Kind, "has secret fields, which a schedule would keep as they are: dispatch it from a kind of yours that looks them up")
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return sc, err
	}
	next, _ := c.Next(now, zone)
	payload, err := ResolveDays(sc.Payload, next.Local)
	if err != nil {
		return sc, err
	}
	_, err = s.dispatcher.prepare(ctx, Request{Kind: sc.Kind, Tenant: sc.Tenant, Payload: payload}, o.list())
	return sc, err
}

// RunNow fires a schedule by hand, for somebody whose name is recorded, also while it
// is paused. Its words for days mean today, in its zone. [storage.ErrOverlap] when it
// does not overlap and a run is at work; what is wrong with its request is an [*invalid.Error].
// A key, unless it is empty, makes repeated clicks one: with one that was used before for the
// schedule it answers the run of then, and true.
func (s *Schedules) RunNow(ctx context.Context, scope storage.Scope, name, who, key string) (run storage.ScheduleRun, again bool, err error) {
	if key == "" {
		key = uuid.NewString()
	} else {
		sum := sha256.Sum256([]byte(key))
		key = hex.EncodeToString(sum[:])
	}
	key = "by hand " + key
	err = s.store.Transaction(ctx, func(tx storage.Tx) error {
		sc, now, err := s.store.LockSchedule(ctx, tx, scope, name)
		if err != nil {
			return err
		}
		if run, again, err = s.store.RunOf(ctx, tx, name, key); err != nil || again {
			return err
		}
		zone, err := report.LoadZone(sc.Zone)
		if err != nil {
			return invalid.New("zone", sc.Zone, "%s", err)
		}
		if job, state, err := s.store.RunAtWork(ctx, tx, name); err != nil {
			return err
		} else if !sc.Overlap && job != uuid.Nil {
			return fmt.Errorf("run schedule %q: %w: job %s is %s", name, storage.ErrOverlap, job, state)
		}
		local := now.In(zone)
		f := calendar.Fire{At: now, Key: key, Local: time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), 0, time.UTC)}
		run, err = s.dispatch(ctx, tx, sc, f, storage.ScheduleRun{Manual: true, AskedBy: who}, RequestedBy(who))
		return err
	})
	return run, again, err
}
