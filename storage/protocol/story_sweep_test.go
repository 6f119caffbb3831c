package protocol

import "slices"

// sweep is a clean-up in three steps, without grace, quarantine or retention.
func (s *story) sweep() {
	w, a := &s.world, s.sweeper.attempt
	switch s.sweeper.phase {
	case removing:
		s.tell("the clean-up removes the file of attempt %d, which is %q: %t", a, w.Attempt(a).State, w.Remove(a))
		s.sweeper.phase = burying
		return
	case burying:
		w.Bury(a)
		s.tell("the clean-up buries attempt %d: %q", a, w.Attempt(a).State)
		s.sweeper = sweeper{}
		return
	}
	if w.Attempts() == 0 || s.restore == restoring && s.has(Idle) || !w.fits() {
		return
	}
	w.tell()
	take, what := Take{Every: true, Lost: true, Superseded: !w.Stored() || !s.has(Keep)}, ""
	first := s.pick(int(w.Attempts()))
	for i := 0; i < int(w.Attempts()) && what == ""; i++ {
		a = AttemptID((first+i)%int(w.Attempts()) + 1)
		what = w.due(a, take)
	}
	switch {
	case what == "" || w.unsafe(1):
	case what == "condemn":
		s.tell("the clean-up condemns attempt %d: %t", a, w.Condemn(a, true))
	default:
		s.tell("the clean-up wants to %s attempt %d, which is %s", what, a, w.Attempt(a).State)
		s.sweeper = sweeper{removing, a}
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
	case s.pick(3) == 0: // not yet
	case s.restore == copied && (s.sweeper.phase == looking || !s.has(Idle)):
		w.Discard()
		s.tell("the restore begins")
		s.restore = restoring
	case s.restore == restoring:
		s.putBack()
	case s.restore > restoring:
		s.recover()
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
		w.openEpoch()
		s.tell("tokens go on above %d", token)
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
		s.tell("recovery: %+v", w.Recover(false))
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
	if w.unsafe(1) {
		return s.laws.Check(w, 0) // the clean-up rightly refuses
	}
	w.Discard()
	w.ProbesDue()
	for _, what := range []string{"condemn", "delete", "probe"} {
		if v := s.cleanAll(what); v != nil {
			return v
		}
	}
	return s.laws.CheckEnd(w)
}

func (s *story) unfinished() bool {
	return slices.ContainsFunc(s.world.jobs, func(j Job) bool { return j.State != "" && !j.State.Ended() })
}

// cleanAll is one pass of a clean-up.
func (s *story) cleanAll(what string) *Violation {
	w := &s.world
	for a := AttemptID(1); a <= w.Attempts(); a++ {
		if w.due(a, Take{Every: true, Lost: true, Superseded: true}) != what {
			continue
		}
		s.tell("the clean-up will %s attempt %d, which is %s", what, a, w.Attempt(a).State)
		w.clean(a, what, new(Swept))
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
