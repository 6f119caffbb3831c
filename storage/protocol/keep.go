package protocol

// Span is for how long a rule keeps publications.
type Span int

// The spans: time has passed, or it has not.
const (
	Forever Span = iota
	OneDay       // until the day passes
	NoTime
)

// Rule is the rule of retention that counts for every export; see
// storage.RetentionRule. Without one current publications stay for ever, and replaced ones as
// long as their readers have time.
type Rule struct {
	Set                 bool
	Current, Superseded Span
	Newest              int // so many of the newest replaced publications stay
}

func (s Span) over(old bool) bool { return s == NoTime || s == OneDay && old }

// Rule reads it.
func (w *World) Rule() Rule { return w.rule }

// SetRule sets the rule. The zero value removes it, and then false means that there is none.
func (w *World) SetRule(r Rule) bool {
	was := w.rule.Set
	w.rule = r
	return r.Set || was
}

// DayPasses lets a day pass since everything that was published or replaced.
func (w *World) DayPasses() {
	for i := range w.exports {
		w.exports[i].Old = w.exports[i].Exists
	}
	for i := range w.attempts {
		w.attempts[i].Old = w.attempts[i].State != ""
	}
}

// Pin pins an export, or with an attempt one publication; or takes that back. False
// means that there is none, or that its files go already.
func (w *World) Pin(e ExportID, a AttemptID, pinned bool) bool {
	x := &w.exports[e]
	pin, there := &x.Pinned, x.Exists && !x.Deleted
	if a != 0 {
		t := &w.attempts[a]
		pin, there = &t.Pinned, t.published() && !t.Doomed
	}
	if !there || !pinned && !*pin {
		return false
	}
	*pin = pinned
	return true
}

// Hold puts an export on hold, or with 0 all of them: ok, not found, or that it is on hold already.
func (w *World) Hold(e ExportID) Outcome {
	switch held := w.holdOf(e); {
	case held == nil:
		return Outcome{Is: Unknown}
	case *held:
		return Outcome{Is: HeldAlready}
	default:
		*held = true
		return Outcome{Is: Done}
	}
}

// Release ends such a hold.
func (w *World) Release(e ExportID) Outcome {
	held := w.holdOf(e)
	if held == nil || !*held {
		return Outcome{Is: Unknown}
	}
	*held = false
	return Outcome{Is: Done}
}

func (w *World) holdOf(e ExportID) *bool {
	switch {
	case e == 0:
		return &w.heldAll
	case w.exports[e].Exists:
		return &w.exports[e].Held
	}
	return nil
}

// HeldAll reports whether a hold covers every export.
func (w *World) HeldAll() bool { return w.heldAll }

func (w *World) onHold(e ExportID) bool { return w.heldAll || w.exports[e].Held }

// What keeps the files of an attempt.
const (
	byHold    = "hold"
	byPin     = "pin"
	byPointer = "current"
	byReaders = "readers" // of what was replaced or deleted a moment ago
	byRule    = "rule"
	byRank    = "newest"
)

// kept is kept: what keeps the files of an attempt, or nothing. readers may still
// have them open.
func (w *World) kept(a AttemptID, readers bool) string {
	t := &w.attempts[a]
	e := &w.exports[t.Export]
	switch {
	case t.State == "" || t.State == AttemptDeleted || t.Doomed:
		return ""
	case w.onHold(t.Export):
		return byHold
	case !t.published(): // what was lost
		return ""
	case t.Pinned || e.Pinned:
		return byPin
	case t.State == AttemptPublished && !e.Deleted:
		return byPointer
	case readers:
		return byReaders
	case e.Deleted || !w.rule.Set:
		return ""
	case !w.rule.Superseded.over(t.Old):
		return byRule
	case w.newer(a) < w.rule.Newest:
		return byRank
	}
	return ""
}

// published reports whether the attempt is a publication with files.
func (t *Attempt) published() bool {
	return t.State == AttemptPublished || t.State == AttemptSuperseded
}

// newer counts the replaced publications after one.
func (w *World) newer(a AttemptID) (n int) {
	for i := range w.attempts {
		t := &w.attempts[i]
		if t.Export == w.attempts[a].Export && t.State == AttemptSuperseded && t.Token > w.attempts[a].Token {
			n++
		}
	}
	return n
}

// asks reports whether the clean-up asks for what keeps an attempt when it decides.
func (w *World) asks(why string) bool {
	switch why {
	case byHold:
		return w.has(HoldCheck)
	case byPin:
		return w.has(PinCheck)
	case byRule, byRank:
		return w.has(RuleCheck)
	}
	return why != ""
}

// Doom is doom_attempts for one attempt: the decision that its files go, for good.
// False when something keeps them.
func (w *World) Doom(a AttemptID, readers bool) bool {
	t := &w.attempts[a]
	if t.State == "" || t.State == AttemptDeleted || t.locked || w.closed() || w.asks(w.kept(a, readers)) {
		return false
	}
	if t.State.Unfinished() && w.has(Condemn) && w.has(Verdict) {
		return false
	}
	t.Doomed = true
	return true
}

// outlived reports whether the rule lets an export go, and no job works on it.
func (w *World) outlived(e ExportID) bool {
	x := &w.exports[e]
	if x.Deleted || x.Current == 0 || !w.rule.Set || !w.rule.Current.over(x.Old) {
		return false
	}
	for j := range w.jobs {
		if job := &w.jobs[j]; job.Export == e && job.State != "" && !job.State.Ended() {
			return false
		}
	}
	return true
}

// expires reports whether an export is to expire: it has outlived its rule and nothing else keeps it.
func (w *World) expires(e ExportID) bool {
	return w.outlived(e) && w.kept(w.exports[e].Current, false) == byPointer
}

// Expire is expire_exports for one export: the clean-up deletes it, softly, and its
// key is free. False when something keeps it.
func (w *World) Expire(e ExportID) bool {
	x := &w.exports[e]
	if w.closed() || x.Deleted || !w.outlived(e) && w.has(RuleCheck) {
		return false
	}
	if why := w.kept(x.Current, false); why != byPointer && w.asks(why) {
		return false
	}
	x.Deleted, x.Expired = true, true
	return true
}

// DeleteExport deletes an export, softly, and cancels its jobs: done, not found,
// pinned or on hold. Its files go with a later clean-up.
func (w *World) DeleteExport(e ExportID) Outcome {
	out := w.MarkDeleted(e)
	if out.Is != Done {
		return out
	}
	for j := range w.jobs {
		if job := &w.jobs[j]; job.Export == e && (job.State == JobQueued || job.State == JobRunning) {
			w.Cancel(JobID(j))
		}
	}
	return out
}

// MarkDeleted is the first half of DeleteExport, for one that dies after it.
func (w *World) MarkDeleted(e ExportID) Outcome {
	x := &w.exports[e]
	switch {
	case !x.Exists || x.Deleted:
		return Outcome{Is: Unknown}
	case x.Pinned:
		return Outcome{Is: Pinned}
	case w.onHold(e):
		return Outcome{Is: OnHold}
	}
	x.Deleted = true
	return Outcome{Is: Done}
}

// RestoreExport brings a deleted export back: done, not found, or that it cannot be
// restored, for its files go already or another one has its key.
func (w *World) RestoreExport(e ExportID) Outcome {
	x := &w.exports[e]
	if !x.Exists || !x.Deleted {
		return Outcome{Is: Unknown}
	}
	if t := &w.attempts[x.Current]; x.Current != 0 && (t.State != AttemptPublished || t.Doomed) && w.has(RestoreCheck) {
		return Outcome{Is: CannotRestore}
	}
	if of := w.ofKey(x.Key); of != 0 && of != e {
		return Outcome{Is: CannotRestore}
	}
	x.Deleted, x.Expired = false, false
	return Outcome{Is: Done}
}

// ofKey is the export that has a key; 0 for none.
func (w *World) ofKey(key int) ExportID {
	for i := range w.exports {
		if e := &w.exports[i]; e.Exists && e.Key == key && !e.Expired {
			return ExportID(i)
		}
	}
	return 0
}
