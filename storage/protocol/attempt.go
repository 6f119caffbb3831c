package protocol

// Outcome is what a step answers: the text that the function in the database
// returns, and for a fenced attempt by whom.
type Outcome struct {
	Is     string
	Reason string
	By     int64
}

// What steps answer besides the states of attempts and jobs.
const (
	Begun          = "begun"
	NotDue         = "not_due"
	Held           = "held"
	Gone           = "gone"
	Unknown        = "unknown"
	Stale          = "stale"
	SequenceBehind = "sequence_behind"
	RecoveryNeeded = "recovery_needed"
	Unsafe         = "unsafe"
	Done           = "done"
	Pinned         = "pinned"
	OnHold         = "on_hold"
	HeldAlready    = "held_already"
	CannotRestore  = "cannot_restore"
	Exists         = "exists"  // the file's name is taken
	Created        = "created" // the file
	Granted        = "granted" // the snapshot
)

// Begin is begin_attempt: the job's next attempt, with its token, under a lease of
// the given order; 0 for none.
func (w *World) Begin(j JobID, order int64) (AttemptID, Outcome) {
	job := &w.jobs[j]
	if job.State == "" {
		return 0, Outcome{Is: Unknown}
	}
	if job.State != JobQueued || !job.Due {
		return 0, Outcome{Is: NotDue}
	}
	e := &w.exports[job.Export]
	if e.Deleted {
		job.State, job.Error = JobFailed, "the export was deleted"
		w.outbox = append(w.outbox, Notice{"job.failed", j, 0})
		return 0, Outcome{Is: Gone}
	}
	if w.closed() { // its token could be one that was given out before
		job.Generation++
		return 0, Outcome{Is: Held}
	}
	w.sequence++
	if w.sequence <= e.Issued || w.tokenTaken(w.sequence) {
		return 0, Outcome{Is: SequenceBehind}
	}
	e.Issued = w.sequence
	a := AttemptID(len(w.attempts))
	job.Attempts++
	w.attempts = append(w.attempts, Attempt{
		Export: job.Export, Job: j, Number: job.Attempts, Token: e.Issued, Order: order, State: AttemptRunning, Step: "read",
	})
	w.places = append(w.places, place{export: job.Export, token: e.Issued})
	job.State, job.Waiting, job.Holder = JobRunning, "", a
	return a, Outcome{Is: Begun}
}

// tokenTaken looks over all exports, whose tokens come from one sequence.
func (w *World) tokenTaken(token int64) bool {
	for i := len(w.attempts) - 1; i > 0; i-- {
		if w.attempts[i].Token == token {
			return true
		}
	}
	return false
}

// Alive is what heartbeat answers.
type Alive struct {
	Attempt AttemptState
	Job     JobState
	Mine    bool // the job is still this attempt's
}

// Heartbeat is heartbeat: it keeps an attempt from being taken for silent. The zero
// value means that the attempt is unknown.
func (w *World) Heartbeat(a AttemptID, step string, read int64) Alive {
	t := &w.attempts[a]
	if t.State == "" {
		return Alive{}
	}
	if t.State.Unfinished() {
		t.Silent = false
	}
	if t.State == AttemptRunning { // a beat that was on its way while it was sealed changes nothing else
		t.Step, t.Rows = step, read
	}
	job := &w.jobs[t.Job]
	return Alive{Attempt: t.State, Job: job.State, Mine: job.Holder == a}
}

// Snapshot is the first statement of a snapshot. It answers which version of the
// data the snapshot sees.
func (w *World) Snapshot(e ExportID, token int64) (int, Outcome) {
	x := &w.exports[e]
	if !x.Exists {
		return 0, Outcome{Is: Unknown}
	}
	if x.Issued != token && w.has(SnapshotCheck) {
		return 0, Outcome{Is: string(AttemptFenced), Reason: "newer_token", By: x.Issued}
	}
	return w.data, Outcome{Is: Granted}
}

// CreateFile writes the attempt's file. It asks no database.
func (w *World) CreateFile(a AttemptID) Outcome {
	if w.places[a].present {
		return Outcome{Is: Exists}
	}
	w.places[a].present, w.written = true, true
	return Outcome{Is: Created}
}

// CreateManifest writes beside the attempt's file what it is, by the database's books.
// What was written stays.
func (w *World) CreateManifest(a AttemptID, read int64, asOf int) Outcome {
	t, p := &w.attempts[a], &w.places[a]
	switch {
	case t.State == "":
		return Outcome{Is: Unknown}
	case p.manifest != nil:
		return Outcome{Is: Exists}
	}
	p.manifest = &manifest{w.exports[t.Export].Key, asOf, t.Job, read}
	return Outcome{Is: Created}
}

// Seal is seal_attempt, for data of the given version.
func (w *World) Seal(a AttemptID, read int64, asOf int) Outcome {
	t := &w.attempts[a]
	switch t.State {
	case "":
		if !w.has(RowCheck) && w.places[a].token != 0 {
			return Outcome{Is: string(AttemptSealed)}
		}
		return Outcome{Is: Unknown}
	case AttemptRunning:
		t.State, t.Step, t.Silent, t.Rows, t.AsOf = AttemptSealed, "publish", false, read, asOf
	default:
		return Outcome{Is: string(t.State)}
	}
	return Outcome{Is: string(AttemptSealed)}
}

// rule gives an attempt its verdict.
func (t *Attempt) rule(verdict AttemptState, reason string, by int64) {
	t.State, t.Verdict, t.Reason, t.FencedBy = verdict, verdict, reason, by
}

// ahead says which kind of attempt holds the pointer before t.
func (w *World) ahead(t *Attempt) string {
	if w.attempts[w.exports[t.Export].Current].Job == t.Job {
		return "newer_attempt"
	}
	return "newer_job"
}

// Ending is how an attempt gives up; see storage.Ending.
type Ending struct {
	State         AttemptState // failed, fenced or cancelled
	Reason, Error string
	Counts, Final bool
	Later         bool // the job is not due again at once
}

// End is end_attempt. It answers what became of the job: queued, failed, cancelled
// or stale; or the state in which the attempt was found.
func (w *World) End(a AttemptID, how Ending) Outcome {
	t := &w.attempts[a]
	if t.State == "" {
		return Outcome{Is: Unknown}
	}
	if !t.State.Unfinished() {
		return Outcome{Is: string(t.State)}
	}
	e, job := &w.exports[t.Export], &w.jobs[t.Job]
	mine := job.Holder == a || !w.has(EndFence)
	verdict, reason, by := how.State, how.Reason, int64(0)
	switch {
	case !mine:
		verdict, reason, by = AttemptFenced, "handed_on", w.attempts[job.Holder].Token
		if e.Last >= t.Token {
			reason = w.ahead(t)
		}
		if e.Last > t.Token {
			by = e.Last
		}
	case job.State == JobCancelling || job.State == JobCancelled:
		verdict = AttemptCancelled
	case how.State == AttemptFenced:
		by = e.Issued
	}
	t.rule(verdict, reason, by)
	t.Error = how.Error
	if !mine || job.State != JobRunning && job.State != JobCancelling {
		return Outcome{Is: Stale}
	}
	return Outcome{Is: string(w.giveBack(a, job, how))}
}

// giveBack decides about the job of an attempt that has given up.
func (w *World) giveBack(a AttemptID, job *Job, how Ending) JobState {
	if job.State == JobCancelling {
		job.State = JobCancelled
		return job.State
	}
	if how.Counts {
		job.Failures++
	}
	if how.Final || how.Counts && job.Failures >= job.MaxAttempts {
		job.State, job.Error = JobFailed, how.Error
		if how.Error == "" {
			job.Error = how.Reason
		}
		w.outbox = append(w.outbox, Notice{"job.failed", w.attempts[a].Job, a})
		return job.State
	}
	if how.Error != "" {
		job.Error = how.Error
	}
	job.Waiting = ""
	switch {
	case how.Counts:
		job.Waiting = "retry"
	case how.State == AttemptFenced:
		job.Waiting = "lease"
	}
	job.requeue(!how.Later)
	return job.State
}

// requeue lets the job wait for its next attempt.
func (j *Job) requeue(due bool) {
	j.State, j.Holder, j.Due = JobQueued, 0, due
	j.Generation++
}
