package protocol

import "fmt"

// Violation is a law that was broken.
type Violation struct {
	Law  int // as in package storage: 1 is L1
	Text string
}

// Error names the law and what broke it.
func (v *Violation) Error() string { return fmt.Sprintf("L%d: %s", v.Law, v.Text) }

// Laws watch one world: they compare what it is with what it was at the last look.
// Not safe for concurrent use.
type Laws struct {
	exports  []pointer
	jobs     []claim
	files    []lying
	only     int // the law that is asked for, 0 for all
	unlawful *Violation
}

// What the laws remember of rows and files, and no more: they look after every step.
type (
	pointer struct {
		last    int64
		current AttemptID
		asOf    int
	}
	claim struct {
		state  JobState
		holder AttemptID
	}
	lying struct{ present, garbage bool }
)

// Watch begins to watch a world as it is, and forgets what it was. It must be called
// again after a restore: what was published after the copy was made is not history.
func (l *Laws) Watch(w *World) {
	l.unlawful = nil
	l.exports, l.jobs, l.files = l.exports[:0], l.jobs[:0], l.files[:0]
	for i := range w.exports {
		e := &w.exports[i]
		l.exports = append(l.exports, pointer{e.Last, e.Current, w.attempts[e.Current].AsOf})
	}
	for i := range w.jobs {
		l.jobs = append(l.jobs, claim{w.jobs[i].State, w.jobs[i].Holder})
	}
	for i := range w.places {
		present := w.places[i].present
		l.files = append(l.files, lying{present, present && w.garbage(AttemptID(i))})
	}
}

// Check looks at a world after one step, which attempt by made; 0 when no attempt
// did. It answers the first law that does not hold, or nil.
func (l *Laws) Check(w *World, by AttemptID) *Violation {
	for e := range w.exports {
		l.checkExport(w, ExportID(e))
	}
	l.checkTokens(w)
	for a := range l.files {
		if l.files[a].present && !w.places[a].present && !l.files[a].garbage {
			l.broken(7, "the file of attempt %d was deleted, which is %q", a, w.attempts[a].State)
		}
	}
	if by != 0 {
		l.checkJobs(w, by)
	}
	l.checkPublications(w)
	found := l.unlawful
	l.Watch(w)
	return found
}

func (l *Laws) broken(law int, format string, args ...any) {
	if l.unlawful == nil && (l.only == 0 || l.only == law) {
		l.unlawful = &Violation{law, fmt.Sprintf(format, args...)}
	}
}

// checkExport is for L1, L2 and L3.
func (l *Laws) checkExport(w *World, e ExportID) {
	now := &w.exports[e]
	if now.Current != 0 && !w.places[now.Current].present && !now.Deleted && !now.FilesLost {
		l.broken(1, "the pointer of export %d names attempt %d, whose file is gone", e, now.Current)
	}
	if int(e) >= len(l.exports) {
		return
	}
	was := &l.exports[e]
	if now.Current == was.current {
		if now.Last != was.last {
			l.broken(2, "export %d went from token %d to %d without another attempt", e, was.last, now.Last)
		}
		return
	}
	if now.Last <= was.last || now.Last > now.Issued {
		l.broken(2, "export %d published token %d after %d, of %d issued", e, now.Last, was.last, now.Issued)
	}
	if asOf := w.attempts[now.Current].AsOf; asOf < was.asOf {
		l.broken(3, "export %d went from data version %d back to %d", e, was.asOf, asOf)
	}
}

// checkTokens is for L2: the tokens of an export rise with every attempt, also
// across a restore.
func (l *Laws) checkTokens(w *World) {
	for a := len(l.files); a < len(w.places); a++ {
		for b := range a {
			if now, was := &w.places[a], &w.places[b]; now.export == was.export && now.token <= was.token {
				l.broken(2, "attempt %d of export %d got token %d after attempt %d had %d", a, now.export, now.token, b, was.token)
			}
		}
	}
}

// checkJobs is for L5 and L6: what an attempt may do to jobs.
func (l *Laws) checkJobs(w *World, by AttemptID) {
	for j := range l.jobs {
		now, was := &w.jobs[j], &l.jobs[j]
		if now.State == was.state && now.Holder == was.holder {
			continue
		}
		if was.state.Ended() {
			l.broken(5, "job %d had ended as %s and is %s", j, was.state, now.State)
		}
		begins := was.state == JobQueued && now.State == JobRunning && now.Holder == by
		if was.holder != by && !begins {
			l.broken(6, "attempt %d made job %d of attempt %d %s", by, j, was.holder, now.State)
		}
	}
}

// checkPublications is for L4 and L8, and for what L7 needs besides: a published
// attempt that no pointer names would never be cleaned up.
func (l *Laws) checkPublications(w *World) {
	published := 0
	for a := 1; a < len(w.attempts); a++ {
		t := &w.attempts[a]
		if t.State == AttemptPublished && w.exports[t.Export].Current != AttemptID(a) {
			l.broken(7, "attempt %d is published although export %d names attempt %d", a, t.Export, w.exports[t.Export].Current)
		}
		if t.Verdict != AttemptPublished && t.Verdict != AttemptSuperseded {
			continue
		}
		published++
		for b := a + 1; b < len(w.attempts); b++ {
			if v := w.attempts[b].Verdict; w.attempts[b].Job == t.Job && (v == AttemptPublished || v == AttemptSuperseded) {
				l.broken(4, "job %d was published by attempts %d and %d", t.Job, a, b)
			}
		}
	}
	l.checkNotices(w, published)
}

func (l *Laws) checkNotices(w *World, published int) {
	told := 0
	for i := range w.outbox {
		n := &w.outbox[i]
		if n.Topic != "export.published" {
			continue
		}
		told++
		if v := w.attempts[n.Attempt].Verdict; v != AttemptPublished && v != AttemptSuperseded {
			l.broken(8, "attempt %d gave notice of a publication and is %s", n.Attempt, v)
		}
	}
	if told != published {
		l.broken(8, "%d publications, %d notices of them", published, told)
	}
}

// CheckEnd looks at a world in which nobody works any more, every lost job was handed
// on and begun again, and the clean-up has had its way: L5 and the other half of L7.
func (l *Laws) CheckEnd(w *World) *Violation {
	for j := range w.jobs {
		if s := w.jobs[j].State; s != "" && !s.Ended() {
			l.broken(5, "job %d has not ended: it is %s", j, s)
		}
	}
	for a := range w.places {
		t := &w.attempts[a]
		current := w.exports[t.Export].Current == AttemptID(a) && !w.exports[t.Export].Deleted
		given := t.State == AttemptDeleted && t.Probe == "" // after a day nobody looks any more: a leak at worst
		if w.places[a].present && t.State != "" && !current && !given {
			l.broken(7, "attempt %d was %s and its file is still there", a, t.State)
		}
	}
	return l.unlawful
}
