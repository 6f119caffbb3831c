package protocol

// Condemn is condemn_attempts for one attempt: true when it can never publish any
// more because of this. every takes it for silent. A row that a publish holds is
// skipped.
func (w *World) Condemn(a AttemptID, every bool) bool {
	t := &w.attempts[a]
	if !t.State.Unfinished() || t.locked || !t.Silent && !every || w.closed() {
		return false
	}
	t.rule(AttemptCondemned, "no_heartbeat", 0)
	return true
}

// garbage reports whether an attempt can never be the current one again, or is that of
// an export that was deleted.
func (w *World) garbage(a AttemptID) bool {
	t := &w.attempts[a]
	return t.State.Final() || t.State == AttemptPublished && w.exports[t.Export].Deleted
}

// Remove deletes the attempt's file, if it is there.
func (w *World) Remove(a AttemptID) (was bool) {
	was = w.places[a].present
	w.places[a].present, w.places[a].manifest = false, nil
	return was
}

// Bury records that an attempt's files are gone and when they will be looked for
// again.
func (w *World) Bury(a AttemptID) {
	t := &w.attempts[a]
	switch {
	case t.State == AttemptDeleted:
		t.Probes++
	case w.garbage(a) && !w.closed():
		t.State = AttemptDeleted
	default:
		return
	}
	t.Probe = ""
	if t.Probes < 3 { // ten minutes, an hour, a day
		t.Probe = ProbeLater
	}
}

// ProbesDue lets the time pass until every tombstone is to be looked at.
func (w *World) ProbesDue() {
	for i := range w.attempts {
		if w.attempts[i].Probe == ProbeLater {
			w.attempts[i].Probe = ProbeDue
		}
	}
}

// Take says what a clean-up may take: see storage.SweepOptions. false stands for a
// time that has not passed.
type Take struct {
	Every      bool // attempts that are not silent too: a grace of zero
	Lost       bool // the files of attempts that have lost: a quarantine of zero
	Superseded bool // the files of replaced publications and deleted exports: a retention of zero
	News       bool // the files have not been told for long how far the database is
}

// due says what a clean-up would do with an attempt: condemn, delete, probe or
// nothing.
func (w *World) due(a AttemptID, take Take) string {
	t := &w.attempts[a]
	switch {
	case t.State == "":
		return ""
	case !w.has(Verdict):
		if w.exports[t.Export].Current != a {
			return "delete"
		}
		return ""
	case t.State.Unfinished():
		if !t.Silent && !take.Every {
			return ""
		}
		if !w.has(Condemn) {
			return "delete"
		}
		return "condemn"
	case t.State == AttemptDeleted:
		if t.Probe == ProbeDue {
			return "probe"
		}
		return ""
	case t.published() && !take.Superseded, !t.published() && !take.Lost, w.kept(a, false) != "":
		return ""
	}
	return "delete"
}

// Deed is a line of a plan: condemn, delete or probe an attempt, or expire an export.
type Deed struct {
	Do      string
	Attempt AttemptID
	Export  ExportID
}

// Plan is what a clean-up would do now. It is overwritten by the next one.
func (w *World) Plan(take Take) []Deed {
	plan := w.plan[:0]
	for a := AttemptID(1); a <= w.Attempts(); a++ {
		if do := w.due(a, take); do != "" {
			plan = append(plan, Deed{do, a, w.attempts[a].Export})
		}
	}
	for e := ExportID(1); e <= w.Exports(); e++ {
		if w.expires(e) {
			plan = append(plan, Deed{"expire", w.exports[e].Current, e})
		}
	}
	w.plan = plan
	return plan
}

// unsafe reports whether an export's folder holds a token that the database has not
// given out: it is older than its files, and the clean-up stops.
func (w *World) unsafe(e ExportID) bool {
	for i := range w.places {
		if p := &w.places[i]; p.present && p.export == e && p.token > w.exports[e].Issued {
			return true
		}
	}
	return false
}

func (w *World) anyUnsafe() bool {
	for e := range w.exports { // folders of exports without a row are never looked at
		if w.exports[e].Exists && w.unsafe(ExportID(e)) {
			return true
		}
	}
	return false
}

// Swept is what a clean-up did; see storage.SweepResult.
type Swept struct {
	Planned, Condemned, Deleted, Probed, Expired int
	Files                                        int // removed
	Unknown                                      int // files that no attempt accounts for
}

// Sweep is a whole clean-up with nobody in between. refused says why it refused to
// go on; when it is "unsafe", done is what came before that, and in which order it
// comes to exports is not determined.
func (w *World) Sweep(take Take) (done Swept, refused string) {
	if !w.fits() {
		return done, RecoveryNeeded
	}
	if w.told < 0 || take.News {
		w.tell()
	}
	if w.written && !w.knowsAny() {
		return done, Unsafe
	}
	looked := map[ExportID]bool{}
	for _, part := range []string{"condemn", "delete", "probe", "expire"} { // what expires loses its files with a later one
		for _, d := range w.Plan(take) {
			if d.Do != part {
				continue
			}
			done.Planned++
			if !looked[d.Export] {
				looked[d.Export] = true
				if w.unsafe(d.Export) {
					return done, Unsafe
				}
				done.Unknown += w.unknown(d.Export)
			}
			w.clean(d, take, &done)
		}
	}
	return done, ""
}

// knowsAny is false when a database that knows no attempt meets a folder that is not
// empty: it was replaced.
func (w *World) knowsAny() bool {
	for i := range w.attempts {
		if w.attempts[i].State != "" {
			return true
		}
	}
	return false
}

func (w *World) clean(d Deed, take Take, done *Swept) {
	switch d.Do {
	case "condemn":
		if w.Condemn(d.Attempt, true) {
			done.Condemned++
		}
		return
	case "expire":
		if w.Expire(d.Export) {
			done.Expired++
		}
		return
	case "probe":
		done.Probed++
	default:
		if !w.Doom(d.Attempt, !take.Superseded) {
			return
		}
		done.Deleted++
	}
	if w.Remove(d.Attempt) {
		done.Files++
	}
	w.Bury(d.Attempt)
}

// unknown counts the files of attempts that the database has forgotten.
func (w *World) unknown(e ExportID) (n int) {
	for i := range w.places {
		if p := &w.places[i]; p.present && p.export == e && w.attempts[i].State == "" {
			n++
		}
	}
	return n
}
