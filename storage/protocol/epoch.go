package protocol

// Epoch says whether tokens are given out, and whether anything is published or
// cleaned up: only while it is open.
type Epoch string

// The states of the epoch.
const (
	EpochOpen       Epoch = "open"
	EpochStopped    Epoch = "stopped"  // the files have heard of tokens that the database does not know
	EpochRestored   Epoch = "restored" // the database does not know itself any more
	EpochRecovering Epoch = "recovering"
)

// tokenMargin is how far above every token that was seen a recovery lets them go
// on: some were given out and left no trace.
const tokenMargin = 1000

// Epoch reads it.
func (w *World) Epoch() Epoch { return w.epoch }

// Told is the highest token that the files have heard of; -1 before they heard of any.
func (w *World) Told() int64 { return w.told }

// closed reports whether the database refuses because of its epoch.
func (w *World) closed() bool { return w.epoch != EpochOpen && w.has(EpochCheck) }

// fits compares the database with what its files have heard, as every process and
// every clean-up does before it begins, and stops it when it is behind.
func (w *World) fits() bool {
	if w.epoch == EpochOpen && w.told > w.sequence {
		w.epoch = EpochStopped
	}
	return !w.closed()
}

// tell lets the files hear how far the database is.
func (w *World) tell() { w.told = max(w.told, w.sequence) }

// Save puts a copy of the database in store, in place of an earlier one. Files are
// not copied.
func (w *World) Save() {
	w.copy.become(&w.rows)
	w.stored = true
}

// Discard takes the copy out of store: nobody restores it any more.
func (w *World) Discard() { w.stored = false }

// Restore puts the copy back, whether it is in store or was read before. The files
// and what workers know stay. The database notices, and waits for [World.Recover].
func (w *World) Restore() {
	exports, jobs, attempts := len(w.exports), len(w.jobs), len(w.attempts)
	w.become(&w.copy)
	w.exports = grown(w.exports, exports)
	w.jobs = grown(w.jobs, jobs)
	w.attempts = grown(w.attempts, attempts)
	for i := range w.attempts {
		w.attempts[i].locked = false // what was in flight was rolled back
	}
	w.stored = false
	if w.epoch == EpochOpen {
		w.epoch = EpochRestored
	}
}

// Recovered is what a recovery found and did; see storage.RecoverSummary.
type Recovered struct {
	Done                               bool
	Condemned, Pointers, Lost, Unknown int
	Token                              int64
}

// Recover is storage.Recover with nobody in between: it begins a new epoch, if need
// be or with giveUp, which gives up pointers without files.
func (w *World) Recover(giveUp bool) (r Recovered) {
	if w.fits() && !giveUp {
		return Recovered{Done: true}
	}
	w.closeEpoch()
	r.Condemned, _ = w.condemnUnfinished()
	r.Token = w.raiseSequence()
	for e := ExportID(1); e <= w.Exports(); e++ {
		r.Unknown += w.unknown(e)
	}
	if r.Pointers, r.Lost = w.lookAtPointers(giveUp); r.Lost == 0 || giveUp {
		w.openEpoch()
		r.Done = true
	}
	return r
}

// The steps of a recovery.

func (w *World) closeEpoch() { w.epoch = EpochRecovering }

// condemnUnfinished is condemn_unfinished, for all of them: what the database takes for
// unfinished may have lost its files, and its workers may be of another life. Their jobs
// wait again. It waits for publishers: ok is false while there is one.
func (w *World) condemnUnfinished() (n int, ok bool) {
	for a := range w.attempts {
		t := &w.attempts[a]
		if !t.State.Unfinished() || !w.has(CondemnAll) {
			continue
		}
		if t.locked {
			return n, false
		}
		n++
		t.rule(AttemptCondemned, "recovery", 0)
		job := &w.jobs[t.Job]
		if job.Holder != AttemptID(a) {
			continue
		}
		switch job.State {
		case JobCancelling:
			job.State, job.Waiting, job.Due = JobCancelled, "", true
			job.Generation++
		case JobRunning:
			job.Waiting = ""
			job.requeue(true)
		}
	}
	return n, true
}

// raiseSequence lets tokens go on above every one that has left a trace. Those of an
// export's files count as given out: the clean-up need not take fright at them any more.
func (w *World) raiseSequence() int64 {
	seen := max(w.sequence, w.told)
	for i := range w.exports {
		seen = max(seen, w.exports[i].Issued)
	}
	for i := range w.attempts {
		seen = max(seen, w.attempts[i].Token)
	}
	for i := range w.places {
		p := &w.places[i]
		if !p.present {
			continue
		}
		seen = max(seen, p.token)
		if e := &w.exports[p.export]; e.Exists {
			e.Issued = max(e.Issued, p.token)
		}
	}
	seen += tokenMargin
	if w.has(Raise) {
		w.sequence = seen
	}
	return seen
}

// lookAtPointers counts the pointers, and those without files, which may be given up.
func (w *World) lookAtPointers(giveUp bool) (all, lost int) {
	for i := range w.exports {
		e := &w.exports[i]
		if e.Current == 0 || e.Deleted {
			continue
		}
		all++
		if w.places[e.Current].present {
			e.FilesLost = false
			continue
		}
		lost++
		e.FilesLost = e.FilesLost || giveUp
	}
	return all, lost
}

func (w *World) openEpoch() {
	w.tell()
	w.epoch = EpochOpen
}

func (r *rows) become(from *rows) {
	r.exports = append(r.exports[:0], from.exports...)
	r.jobs = append(r.jobs[:0], from.jobs...)
	r.attempts = append(r.attempts[:0], from.attempts...)
	r.outbox = append(r.outbox[:0], from.outbox...)
	r.sequence, r.data, r.epoch = from.sequence, from.data, from.epoch
	r.rule, r.heldAll = from.rule, from.heldAll
}

// grown pads a table with rows that do not exist, for their numbers are taken.
func grown[T any](table []T, n int) []T {
	for len(table) < n {
		var none T
		table = append(table, none)
	}
	return table
}
