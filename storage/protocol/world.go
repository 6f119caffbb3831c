package protocol

// The numbers of exports, jobs and attempts stand for their UUIDs: they are given
// once, also when a restore has taken the row away. 0 is none.
type (
	ExportID  int
	JobID     int
	AttemptID int
)

// AttemptState is where an attempt stands; see storage.AttemptState. The zero
// value means that there is no such row.
type AttemptState string

// The states of an attempt.
const (
	AttemptRunning    AttemptState = "running"
	AttemptSealed     AttemptState = "sealed"
	AttemptPublished  AttemptState = "published"
	AttemptSuperseded AttemptState = "superseded"
	AttemptFenced     AttemptState = "fenced"
	AttemptFailed     AttemptState = "failed"
	AttemptCancelled  AttemptState = "cancelled"
	AttemptCondemned  AttemptState = "condemned"
	AttemptDeleted    AttemptState = "deleted"
)

// Unfinished reports whether the attempt may still be published.
func (s AttemptState) Unfinished() bool { return s == AttemptRunning || s == AttemptSealed }

// Final reports whether the attempt can never be the current one again, so that
// its files are garbage.
func (s AttemptState) Final() bool {
	switch s {
	case AttemptSuperseded, AttemptFenced, AttemptFailed, AttemptCancelled, AttemptCondemned, AttemptDeleted:
		return true
	}
	return false
}

// JobState is where a job stands; see storage.JobState. The zero value means that
// there is no such row.
type JobState string

// The states of a job.
const (
	JobQueued     JobState = "queued"
	JobRunning    JobState = "running"
	JobDone       JobState = "done"
	JobSuperseded JobState = "superseded"
	JobFailed     JobState = "failed"
	JobCancelling JobState = "cancelling"
	JobCancelled  JobState = "cancelled"
)

// Ended reports whether the job is over.
func (s JobState) Ended() bool {
	return s == JobDone || s == JobSuperseded || s == JobFailed || s == JobCancelled
}

// Export is a row of exports.
type Export struct {
	Exists  bool
	Key     int // tenant, kind and key
	Deleted bool
	Expired bool // deleted by a rule: its key is free
	Pinned  bool
	Held    bool      // by a hold of its own
	Old     bool      // a day has passed since its publication
	Issued  int64     // the newest token
	Last    int64     // the token of the pointer
	Current AttemptID // the pointer
	// FilesLost says that the pointer's files are known to be gone.
	FilesLost bool
}

// Job is a row of jobs. Empty texts are NULL.
type Job struct {
	Export                  ExportID
	State                   JobState
	Waiting                 string // for: lease, retry, later
	Due                     bool
	Generation              int
	Holder                  AttemptID // attempt_id: whose the job is
	Attempts                int
	Failures, Crashes       int
	MaxAttempts, MaxCrashes int
	Error                   string
}

// Attempt is a row of attempts. Empty texts and a FencedBy of 0 are NULL.
type Attempt struct {
	Export         ExportID
	Job            JobID
	Number         int
	Token          int64
	Order          int64 // of its lease; 0 for none
	State, Verdict AttemptState
	Step           string
	Rows           int64
	Reason, Error  string
	FencedBy       int64
	AsOf           int  // which data it has read; see World.Data
	Silent         bool // gave no heartbeat for longer than lease and grace
	Probes         int
	Probe          Probe
	Pinned         bool
	Old            bool // a day has passed since it was replaced
	Doomed         bool // the clean-up has decided: its files go
	locked         bool // by a publish in flight
}

// Probe says whether a tombstone's folder must be looked at again.
type Probe string

// The states of a probe. The zero value means that none is planned.
const (
	ProbeLater Probe = "later"
	ProbeDue   Probe = "due"
)

// Notice is a row of the outbox.
type Notice struct {
	Topic   string // export.published or job.failed
	Job     JobID
	Attempt AttemptID
}

// place is what a worker knows of its attempt, whatever becomes of the row: where
// its file goes. present is the file itself.
type place struct {
	export   ExportID
	token    int64
	present  bool
	manifest *manifest // beside it
}

// manifest is what the file itself tells of its attempt.
type manifest struct {
	key, asOf int
	job       JobID
	rows      int64
}

// rows is what the database holds. Position 0 of each table is not used.
type rows struct {
	exports  []Export
	jobs     []Job
	attempts []Attempt
	outbox   []Notice
	sequence int64 // of tokens
	epoch    Epoch
	rule     Rule
	heldAll  bool
}

// World is a database and a file store in memory. Each method is one committed
// transaction, or one system call. A World is not safe for concurrent use: who
// calls which method when is what its tests are about.
type World struct {
	rows
	places  []place // by AttemptID; what is on disk, whatever the database knows
	told    int64   // the token in the mark of the files
	data    int     // what is read later is newer, also where the data themselves were restored
	without Guard
	written bool // a file, ever: exports' folders stay
	copy    rows
	stored  bool
	lost    []Lost // reused by HandOnLost
	plan    []Deed // reused by Plan
}

// New is a world of its own, without the given guards; 0 leaves all in place.
func New(without Guard) *World {
	w := new(World)
	w.Reset(without)
	return w
}

// Reset empties the world.
func (w *World) Reset(without Guard) {
	w.exports = append(w.exports[:0], Export{})
	w.jobs = append(w.jobs[:0], Job{})
	w.attempts = append(w.attempts[:0], Attempt{})
	w.places = append(w.places[:0], place{})
	w.outbox = w.outbox[:0]
	w.sequence, w.data, w.epoch, w.told = 0, 1, EpochOpen, -1
	w.rule, w.heldAll = Rule{}, false
	w.without, w.stored, w.written = without, false, false
}

func (w *World) has(g Guard) bool { return w.without&g == 0 }

// Exports, Jobs and Attempts are the numbers that were given out, from 1 to the
// answer; rows that a restore has taken away are among them.
func (w *World) Exports() ExportID { return ExportID(len(w.exports) - 1) }

// Jobs is the highest number of a job.
func (w *World) Jobs() JobID { return JobID(len(w.jobs) - 1) }

// Attempts is the highest number of an attempt.
func (w *World) Attempts() AttemptID { return AttemptID(len(w.attempts) - 1) }

// Export reads a row; the zero value when there is none.
func (w *World) Export(e ExportID) Export { return w.exports[e] }

// Job reads a row; the zero value when there is none.
func (w *World) Job(j JobID) Job { return w.jobs[j] }

// Attempt reads a row; the zero value when there is none.
func (w *World) Attempt(a AttemptID) Attempt { return w.attempts[a] }

// Outbox reads all rows. The slice is the world's own.
func (w *World) Outbox() []Notice { return w.outbox }

// Present reports whether the attempt's file is on disk.
func (w *World) Present(a AttemptID) bool { return w.places[a].present }

// Place is where an attempt's files lie, also when the database has forgotten it.
func (w *World) Place(a AttemptID) (ExportID, int64) { return w.places[a].export, w.places[a].token }

// Stored reports whether a copy of the database is in store.
func (w *World) Stored() bool { return w.stored }

// Data is the version of what exports are made from; see ChangeData.
func (w *World) Data() int { return w.data }

// ChangeData makes a newer version of it.
func (w *World) ChangeData() { w.data++ }

// SetSequence sets the token sequence, as by setval: the next token is n+1.
func (w *World) SetSequence(n int64) { w.sequence = n }

// Silence makes an attempt one that gave no heartbeat for long.
func (w *World) Silence(a AttemptID) {
	if w.attempts[a].State != "" {
		w.attempts[a].Silent = true
	}
}
