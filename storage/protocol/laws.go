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
		deleted bool
		expired bool
		stays   string // why it must not be deleted
		expires bool   // its time is over
	}
	claim struct {
		state  JobState
		holder AttemptID
	}
	lying struct {
		present, doomed bool
		stays           string // why its files must not go
	}
)

// Watch begins to watch a world as it is, and forgets what it was. It must be called
// again after a restore: what was published after the copy was made is not history.
func (l *Laws) Watch(w *World) {
	l.unlawful = nil
	l.exports, l.jobs, l.files = l.exports[:0], l.jobs[:0], l.files[:0]
	for i := range w.exports {
		e := &w.exports[i]
		l.exports = append(l.exports, pointer{
			last: e.Last, current: e.Current, asOf: w.attempts[e.Current].AsOf, deleted: e.Deleted, expired: e.Expired,
			stays: w.staysExport(ExportID(i)), expires: w.expires(ExportID(i)),
		})
	}
	for i := range w.jobs {
		l.jobs = append(l.jobs, claim{w.jobs[i].State, w.jobs[i].Holder})
	}
	for i := range w.places {
		t := &w.attempts[i]
		l.files = append(l.files, lying{w.places[i].present, t.Doomed, w.stays(AttemptID(i))})
	}
}

// stays says why the decision that an attempt's files go would be wrong; it is empty
// when it would not. What readers still have open is not for the laws: they know no time.
func (w *World) stays(a AttemptID) string {
	if why := w.kept(a, false); why != "" || w.garbage(a) {
		return why
	}
	return "not decided"
}

// staysExport says the same of deleting an export.
func (w *World) staysExport(e ExportID) string {
	switch x := &w.exports[e]; {
	case w.onHold(e):
		return byHold
	case x.Pinned:
		return byPin
	}
	return ""
}

// Check looks at a world after one step, which attempt by made; 0 when no attempt
// did. It answers the first law that does not hold, or nil.
func (l *Laws) Check(w *World, by AttemptID) *Violation {
	for e := range w.exports {
		l.checkExport(w, ExportID(e))
	}
	l.checkTokens(w)
	for a := range l.files {
		l.checkFiles(w, AttemptID(a))
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

// checkFiles is for L7: first the decision, for which nothing may speak against it,
// then the files.
func (l *Laws) checkFiles(w *World, a AttemptID) {
	was, t := &l.files[a], &w.attempts[a]
	switch {
	case t.Doomed && !was.doomed && was.stays != "":
		l.broken(7, "it was decided that the files of attempt %d go, which is %s: %s", a, t.State, was.stays)
	case was.present && !w.places[a].present && !t.Doomed:
		l.broken(7, "the file of attempt %d was deleted, which is %q, and nobody had decided that", a, t.State)
	}
}

// checkExport is for L1, L2, L3, and L7 as far as an export is deleted.
func (l *Laws) checkExport(w *World, e ExportID) {
	now := &w.exports[e]
	if now.Current != 0 && !w.places[now.Current].present && !now.Deleted && !now.FilesLost {
		l.broken(1, "the pointer of export %d names attempt %d, whose file is gone", e, now.Current)
	}
	if w.attempts[now.Current].Doomed && !now.Deleted {
		l.broken(1, "the pointer of export %d names attempt %d, whose file goes", e, now.Current)
	}
	if int(e) >= len(l.exports) {
		return
	}
	was := &l.exports[e]
	if now.Deleted && !was.deleted && was.stays != "" {
		l.broken(7, "export %d was deleted: %s", e, was.stays)
	}
	if now.Expired && !was.expired && !was.expires {
		l.broken(7, "export %d expired before its time was over", e)
	}
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
	if w.anyUnsafe() {
		l.broken(7, "every clean-up stops at the files of an export")
	}
	for a := range w.places {
		t := &w.attempts[a]
		given := t.State == AttemptDeleted && t.Probe == "" // after a day nobody looks any more: a leak at worst
		if w.places[a].present && t.State != "" && w.kept(AttemptID(a), false) == "" && !given {
			l.broken(7, "attempt %d was %s and its file is still there", a, t.State)
		}
	}
	return l.unlawful
}
