package storage

import (
	"time"

	"github.com/fenceline/fenceline/storage/files"
)

// SweepOptions say what the clean-up may take and when, and how hard it works.
type SweepOptions struct {
	// Grace is how long an attempt must have been silent before it is condemned.
	Grace time.Duration
	// Quarantine is how long the files of an attempt with a verdict stay.
	Quarantine time.Duration
	// Superseded is how long replaced publications stay, at least as long as the longest download takes.
	Superseded time.Duration
	// Limit bounds what one run takes on; 0 is 100,000. The next run goes on.
	Limit int
	// Time bounds how long one run goes on; 0 is for as long as there is something. The next run goes on.
	Time time.Duration
	// Pace is the share of the time, in percent, that a run works; between batches it lets others work. 0 is all of it.
	Pace int
	// Parallel is how many attempts' files are deleted at once; 0 is 4.
	Parallel int
	// MaxShare is the share of all stored bytes that one run may delete, more than 0 and up to 1: a run that would delete
	// more deletes nothing. 0 is no such bound, and less than ShareFloor is never too much.
	MaxShare float64
	// ShareFloor, in bytes, is for MaxShare; 0 is 1 GiB.
	ShareFloor int64
	// Off says that this process deletes nothing.
	Off bool
	// Tenant limits the run to the exports of one tenant; empty is all.
	Tenant string
	// AfterRecovery is how long nothing is cleaned up after a recovery: whoever restored a backup may
	// have to restore another one, whose rows name files that the first one does not need.
	AfterRecovery time.Duration
	// Worker names who sweeps, for the record.
	Worker string
}

const (
	defaultSweepLimit    = 100_000
	defaultSweepParallel = 4
	defaultShareFloor    = 1 << 30
)

// Sweep is the clean-up (step 7): it removes the files of attempts that lost,
// after the database has given their verdict. One runs at a time. It is safe for
// concurrent use.
type Sweep struct {
	store *Store
	files files.Store
	opt   SweepOptions
}

// NewSweep prepares a clean-up of the store's garbage in the given files.
func NewSweep(s *Store, f files.Store, o SweepOptions) *Sweep {
	if o.Limit <= 0 {
		o.Limit = defaultSweepLimit
	}
	if o.Parallel <= 0 {
		o.Parallel = defaultSweepParallel
	}
	if o.ShareFloor <= 0 {
		o.ShareFloor = defaultShareFloor
	}
	return &Sweep{store: s, files: f, opt: o}
}

// Options are those that the clean-up goes by, defaults filled in.
func (sw *Sweep) Options() SweepOptions { return sw.opt }

// With is the same clean-up with other options: change gets a copy of them.
func (sw *Sweep) With(change func(*SweepOptions)) *Sweep {
	o := sw.opt
	change(&o)
	return NewSweep(sw.store, sw.files, o)
}

// SweepResult is what a clean-up did. What was planned and is neither condemned,
// deleted, probed, expired nor failed was skipped: others had decided meanwhile, or held the
// row; the next run looks again.
type SweepResult struct {
	ID        int64 `json:"id"`
	Planned   int   `json:"planned"`
	Condemned int   `json:"condemned"`
	Deleted   int   `json:"deleted"`
	Expired   int   `json:"expired"` // exports whose time was over; their files go with a later run
	Probed    int   `json:"probed"`
	Skipped   int   `json:"skipped"`
	Bytes     int64 `json:"bytes"` // that were removed
	Failed    int   `json:"failed"`
	// Stopped says why the run ended: see [SweepRun.Stopped].
	Stopped string   `json:"stopped"`
	Errors  []string `json:"errors,omitempty"` // the first of them
	// Unknown are names in the folders that were looked at which no attempt accounts for, the first of
	// them. They stay.
	Unknown      []string `json:"unknown,omitempty"`
	UnknownCount int      `json:"unknown_count,omitempty"`
}

// mostNamed bounds the lists of a result.
const mostNamed = 100

func (r *SweepResult) failed(err error) {
	r.Failed++
	if len(r.Errors) < mostNamed {
		r.Errors = append(r.Errors, err.Error())
	}
}

func (r *SweepResult) unknown(name string) {
	r.UnknownCount++
	if len(r.Unknown) < mostNamed {
		r.Unknown = append(r.Unknown, name)
	}
}

// placeOf is where the files of an item lie.
func placeOf(it SweepItem) files.Place {
	return files.Place{Export: it.Export, Token: it.Token, Attempt: it.Attempt}
}
