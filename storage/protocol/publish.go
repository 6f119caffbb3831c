package protocol

// Publish is publish_attempt: both of its halves, with nobody in between.
func (w *World) Publish(a AttemptID) Outcome {
	if found, decided := w.lockForPublish(a); decided {
		return found
	}
	return w.decide(a)
}

// lockForPublish is the first statement of publish_attempt. When there is nothing
// more to decide it answers how the attempt was found; else it holds the row's lock
// until decide or unlock.
func (w *World) lockForPublish(a AttemptID) (found Outcome, decided bool) {
	if w.closed() {
		return Outcome{Is: RecoveryNeeded}, true
	}
	t := &w.attempts[a]
	switch t.State {
	case "":
		if w.has(RowCheck) || w.places[a].token == 0 {
			return Outcome{Is: Unknown}, true
		}
		return w.publishUnknown(a), true
	case AttemptSealed:
		t.locked = w.has(RowLock)
		return Outcome{}, false
	case AttemptDeleted: // its files are gone; what was decided is not
		return Outcome{Is: string(t.Verdict), Reason: t.Reason, By: t.FencedBy}, true
	}
	return Outcome{Is: string(t.State), Reason: t.Reason, By: t.FencedBy}, true
}

// unlock rolls back a publish that has not come to decide.
func (w *World) unlock(a AttemptID) { w.attempts[a].locked = false }

// decide is the rest of publish_attempt, from the locks on export and job to COMMIT.
func (w *World) decide(a AttemptID) Outcome {
	t := &w.attempts[a]
	job := &w.jobs[t.Job]
	t.locked = false
	out := w.refusal(a)
	if out.Is == "" {
		w.movePointer(a)
		return Outcome{Is: string(AttemptPublished)}
	}
	verdict := AttemptState(out.Is)
	if out.Is == Gone {
		verdict = AttemptFailed
	}
	t.rule(verdict, out.Reason, out.By)
	if job.Holder == a { // L6: a stale attempt changes no job
		before := job.State
		job.refused(out)
		if before != JobFailed && job.State == JobFailed {
			w.outbox = append(w.outbox, Notice{"job.failed", t.Job, a})
		}
	}
	return out
}

// refused ends the job of an attempt that was not published.
func (j *Job) refused(out Outcome) {
	switch {
	case j.State == JobCancelling:
		j.State = JobCancelled
	case j.State == JobRunning && out.Is == Gone:
		j.State, j.Error = JobFailed, "the export was deleted"
	case j.State == JobRunning:
		j.State = JobSuperseded
	}
}

// refusal says why a sealed attempt is not published; the zero value when it is.
func (w *World) refusal(a AttemptID) Outcome {
	t := &w.attempts[a]
	e, job := &w.exports[t.Export], &w.jobs[t.Job]
	mine := job.Holder == a && (job.State == JobRunning || job.State == JobCancelling || job.State == JobCancelled)
	switch {
	case e.Last >= t.Token && w.has(TokenCheck):
		return Outcome{string(AttemptFenced), w.ahead(t), e.Last}
	case !w.has(JobFence):
		return Outcome{}
	case !mine:
		out := Outcome{string(AttemptFenced), "handed_on", 0}
		if job.Holder != a {
			out.By = w.attempts[job.Holder].Token
		}
		return out
	case job.State != JobRunning:
		return Outcome{Is: string(AttemptCancelled), Reason: "cancelled"}
	case e.Deleted:
		return Outcome{Is: Gone, Reason: "export_deleted"}
	}
	return Outcome{}
}

// movePointer publishes.
func (w *World) movePointer(a AttemptID) {
	t := &w.attempts[a]
	e := &w.exports[t.Export]
	if old := &w.attempts[e.Current]; old.State == AttemptPublished {
		old.State, old.Verdict, old.Old = AttemptSuperseded, AttemptSuperseded, false
	}
	t.State, t.Verdict, t.Reason = AttemptPublished, AttemptPublished, ""
	e.Last, e.Current, e.FilesLost, e.Old = t.Token, a, false, false
	job := &w.jobs[t.Job]
	job.State, job.Error = JobDone, ""
	w.outbox = append(w.outbox, Notice{"export.published", t.Job, a})
}

// publishUnknown is what a publish would be that goes by the token alone.
func (w *World) publishUnknown(a AttemptID) Outcome {
	p := &w.places[a]
	e := &w.exports[p.export]
	if !e.Exists || e.Last >= p.token {
		return Outcome{string(AttemptFenced), "newer_attempt", e.Last}
	}
	e.Last, e.Current = p.token, a
	return Outcome{Is: string(AttemptPublished)}
}
