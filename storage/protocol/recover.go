package protocol

// tokenMargin is how far above every token that was seen a recovery lets them go
// on: some were given out and left no trace.
const tokenMargin = 1000

// Recovered is what a recovery found and did; see storage.RecoverSummary.
type Recovered struct {
	Done                                        bool
	Condemned, Pointers, Lost, Unknown, Adopted int
	Token                                       int64
}

// Recover is storage.Recover with nobody in between: it begins a new epoch, if need
// be or with one of two wishes. giveUp gives up pointers without files; adopt publishes
// files without rows again.
func (w *World) Recover(giveUp, adopt bool) (r Recovered) {
	if w.fits() && !giveUp && !adopt {
		return Recovered{Done: true}
	}
	w.closeEpoch()
	r.Condemned, _ = w.condemnUnfinished()
	r.Token = w.raiseSequence()
	r.Unknown, r.Adopted = w.strangers(adopt)
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

// raiseSequence lets tokens go on above every one that has left a trace.
func (w *World) raiseSequence() int64 {
	seen := max(w.sequence, w.told)
	for i := range w.exports {
		seen = max(seen, w.exports[i].Issued)
	}
	for i := range w.attempts {
		seen = max(seen, w.attempts[i].Token)
	}
	for i := range w.places {
		if w.places[i].present {
			seen = max(seen, w.places[i].token)
		}
	}
	seen += tokenMargin
	if w.has(Raise) {
		w.sequence = seen
	}
	return seen
}

// strangers counts the files that no attempt accounts for, and adopts those that it
// can, the oldest of an export first. Their tokens count as given out from now on: a
// clean-up stops at one that the database does not know.
func (w *World) strangers(adopt bool) (unknown, adopted int) {
	for a := range w.places { // the tokens of an export rise with its attempts
		switch p := &w.places[a]; {
		case !p.present || w.attempts[a].State != "":
		case adopt && w.adopt(AttemptID(a)):
			adopted++
		default:
			unknown++
		}
	}
	for i := range w.places {
		if p := &w.places[i]; p.present && w.exports[p.export].Exists {
			w.exports[p.export].Issued = max(w.exports[p.export].Issued, p.token)
		}
	}
	return unknown, adopted
}

// adopt is adopt_attempt: an attempt without a row is the current one of its export,
// if its manifest proves it complete and nothing newer is there.
func (w *World) adopt(a AttemptID) bool {
	p := &w.places[a]
	if p.manifest == nil || w.tokenTaken(p.token) {
		return false
	}
	e := &w.exports[p.export]
	if !e.Exists && w.ofKey(p.manifest.key) == 0 {
		*e = Export{Exists: true, Key: p.manifest.key}
	}
	j := p.manifest.job
	job := &w.jobs[j]
	switch {
	case !e.Exists: // another one has its key
		return false
	case e.Deleted || e.Last >= p.token || p.manifest.asOf < w.attempts[e.Current].AsOf:
		return false
	case job.State != "" && job.State != JobQueued:
		return false
	case job.State == "":
		*job = Job{Export: p.export, Due: true, Generation: 1, MaxAttempts: 1, MaxCrashes: 1}
	}
	number := 1
	for i := range w.attempts {
		if t := &w.attempts[i]; t.Job == j && t.State != "" {
			number = max(number, t.Number+1)
		}
	}
	w.attempts[a] = Attempt{Export: p.export, Job: j, Number: number, Token: p.token, Step: "publish", Rows: p.manifest.rows, AsOf: p.manifest.asOf}
	e.Issued = max(e.Issued, p.token)
	job.Waiting, job.Holder, job.Attempts = "", a, max(job.Attempts, number)
	w.movePointer(a)
	w.attempts[a].Reason = "adopted"
	return true
}

// lookAtPointers counts the pointers, also of deleted exports that can be restored, and those
// without files, which may be given up.
func (w *World) lookAtPointers(giveUp bool) (all, lost int) {
	for i := range w.exports {
		e := &w.exports[i]
		if t := &w.attempts[e.Current]; e.Current == 0 || e.Deleted && (t.State != AttemptPublished || t.Doomed) {
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
