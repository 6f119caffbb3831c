package protocol

import "slices"

// sweep is a clean-up, without grace, quarantine or retention: it plans, decides,
// removes and buries, and others come between.
func (s *story) sweep() {
	w, d := &s.world, s.sweeper.Deed
	switch s.sweeper.phase {
	case deciding:
		s.decide()
	case removing:
		s.tell("the clean-up removes the file of attempt %d, which is %q: %t", d.Attempt, w.Attempt(d.Attempt).State, w.Remove(d.Attempt))
		s.sweeper.phase = burying
	case burying:
		w.Bury(d.Attempt)
		s.tell("the clean-up buries attempt %d: %q", d.Attempt, w.Attempt(d.Attempt).State)
		s.sweeper = sweeper{}
	default:
		s.plan()
	}
}

func (s *story) take() Take {
	return Take{Every: true, Lost: true, Superseded: !s.world.Stored() || !s.has(Keep)}
}

func (s *story) plan() {
	w := &s.world
	if s.restore == restoring && s.has(Idle) || !w.fits() {
		return
	}
	w.tell()
	plan := w.Plan(s.take())
	if len(plan) == 0 {
		return
	}
	d := plan[s.pick(len(plan))]
	switch {
	case w.unsafe(d.Export):
	case d.Do == "condemn":
		s.tell("the clean-up condemns attempt %d: %t", d.Attempt, w.Condemn(d.Attempt, true))
	case d.Do == "probe":
		s.sweeper = sweeper{removing, d}
	default:
		s.tell("the clean-up wants to %s attempt %d of export %d, which is %s", d.Do, d.Attempt, d.Export, w.Attempt(d.Attempt).State)
		s.sweeper = sweeper{deciding, d}
		if s.pick(2) == 0 { // nobody comes between
			s.decide()
		}
	}
}

// decide is when the clean-up asks once more, and what it decides is for good.
func (s *story) decide() {
	w, d := &s.world, s.sweeper.Deed
	s.sweeper = sweeper{}
	switch {
	case d.Do == "expire":
		s.tell("export %d expires: %t", d.Export, w.Expire(d.Export))
	case w.Doom(d.Attempt, !s.take().Superseded):
		s.tell("the files of attempt %d will go", d.Attempt)
		s.sweeper = sweeper{removing, d}
	default:
		s.tell("the files of attempt %d stay", d.Attempt)
	}
}

// keep is what people do with exports, and time.
func (s *story) keep() {
	w := &s.world
	e, on := ExportID(s.pick(int(w.Exports()))+1), s.pick(2) == 0
	switch s.pick(12) {
	case 0:
		s.tell("export %d is pinned, %t: %t", e, on, w.Pin(e, 0, on))
	case 1:
		if a := w.exports[e].Current; a != 0 {
			s.tell("attempt %d is pinned, %t: %t", a, on, w.Pin(e, a, on))
		}
	case 2, 3:
		if s.pick(3) == 0 {
			e = 0
		}
		if on {
			s.tell("export %d is put on hold: %s", e, w.Hold(e).Is)
		} else {
			s.tell("export %d is released: %s", e, w.Release(e).Is)
		}
	case 4, 5:
		r := Rule{Set: on, Current: Span(s.pick(3)), Superseded: Span(s.pick(3)), Newest: s.pick(2)}
		if !on {
			r = Rule{}
		}
		s.tell("the rule is %+v: %t", r, w.SetRule(r))
	case 6:
		w.DayPasses()
		s.tell("a day passes")
	case 7, 8:
		s.tell("export %d is deleted: %s", e, w.DeleteExport(e).Is)
	default:
		s.tell("export %d is restored: %s", e, w.RestoreExport(e).Is)
	}
}

// copyOrRestore makes a copy of the database, or puts it back: that takes two steps,
// and from the first on nobody keeps the copy. Some time later comes the recovery.
func (s *story) copyOrRestore() {
	w := &s.world
	switch {
	case s.restore == noCopy:
		w.Save()
		s.tell("the database is copied")
		s.restore = copied
	case s.restore <= restored && s.pick(3) == 0: // not yet
	case s.restore == copied && (s.sweeper.phase == looking || !s.has(Idle)):
		w.Discard()
		s.tell("the restore begins")
		s.restore = restoring
	case s.restore == restoring:
		s.putBack()
	default:
		for s.recover(); s.restore != noCopy && s.pick(2) == 0; {
			s.recover()
		}
	}
}

func (s *story) putBack() {
	s.world.Restore()
	s.laws.Watch(&s.world)
	s.restore = restored
	for i := range s.workers {
		if s.workers[i].phase == publishing { // its transaction was rolled back
			s.workers[i].phase = sealed
		}
	}
	s.tell("the database is restored: %s", s.world.Epoch())
}

// recover is the next step of a recovery, which is alone with no clean-up.
func (s *story) recover() {
	w := &s.world
	switch s.restore {
	case restored:
		w.closeEpoch()
		s.tell("a recovery begins")
		s.restore = closed
	case closed:
		n, ok := w.condemnUnfinished()
		s.tell("%d unfinished attempts are condemned: all of them %t", n, ok)
		if ok {
			s.restore = raised
		}
	case raised:
		token := w.raiseSequence()
		unknown, adopted := w.strangers(s.pick(2) == 0)
		w.openEpoch()
		s.tell("tokens go on above %d; %d files are of nobody, %d are adopted", token, unknown, adopted)
		s.restore = noCopy
	}
}

// end lets everybody die, gives what was left to one worker, and cleans up.
func (s *story) end() *Violation {
	w := &s.world
	s.tell("everybody dies")
	if s.restore == restoring {
		s.putBack()
	}
	for a := range w.attempts {
		w.attempts[a].locked = false
	}
	if w.Epoch() != EpochOpen {
		s.tell("recovery: %+v", w.Recover(false, false))
	}
	if v := s.laws.Check(w, 0); v != nil {
		return v
	}
	for round := 0; round < mostJobs*3 && s.unfinished(); round++ {
		w.HandOnLost(true)
		if v := s.laws.Check(w, 0); v != nil {
			return v
		}
		for j := JobID(1); j <= w.Jobs(); j++ {
			if v := s.finish(j); v != nil {
				return v
			}
		}
	}
	w.Discard()
	w.ProbesDue()
	if w.anyUnsafe() { // a worker of before the restore has written since the recovery
		s.tell("recovery: %+v", w.Recover(false, true))
		if v := s.laws.Check(w, 0); v != nil {
			return v
		}
	}
	for _, what := range []string{"condemn", "delete", "probe", "expire", "delete"} {
		if v := s.cleanAll(what); v != nil {
			return v
		}
	}
	return s.laws.CheckEnd(w)
}

func (s *story) unfinished() bool {
	return slices.ContainsFunc(s.world.jobs, func(j Job) bool { return j.State != "" && !j.State.Ended() })
}

// cleanAll is one part of a clean-up.
func (s *story) cleanAll(what string) *Violation {
	w := &s.world
	take := Take{Every: true, Lost: true, Superseded: true}
	for _, d := range w.Plan(take) {
		if d.Do != what {
			continue
		}
		s.tell("the clean-up will %s attempt %d of export %d, which is %s", what, d.Attempt, d.Export, w.Attempt(d.Attempt).State)
		w.clean(d, take, new(Swept))
		if v := s.laws.Check(w, 0); v != nil {
			return v
		}
	}
	return nil
}

// finish lets a job run without anybody in its way.
func (s *story) finish(j JobID) *Violation {
	w := &s.world
	if w.jobs[j].State != JobQueued {
		return nil
	}
	w.MakeDue(j)
	a, out := w.Begin(j, 0)
	if v := s.laws.Check(w, a); a == 0 || v != nil {
		return v
	}
	e, token := w.Place(a)
	asOf, _ := w.Snapshot(e, token)
	w.CreateFile(a)
	w.Seal(a, 1, asOf)
	out = w.Publish(a)
	s.tell("attempt %d with token %d runs job %d alone: %+v", a, token, j, out)
	return s.laws.Check(w, a)
}
