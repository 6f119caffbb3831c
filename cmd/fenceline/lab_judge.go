package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// labKinds are what the messages of holders are in a timeline.
func labKinds() map[string]string {
	return map[string]string{
		heldBusy: storage.LabBusy, heldTook: storage.LabTook, heldRead: storage.LabNote, heldLooked: storage.LabLooked, heldLost: storage.LabLost,
		heldReleased: storage.LabReleased, heldWrote: storage.LabWrote, heldAccepted: storage.LabAccepted, heldRefused: storage.LabRefused, heldAgain: storage.LabBusy,
	}
}

// gather puts what the holders said and what the lab did into one order.
func (s *labStory) gather() (events []storage.LabEvent, order []string) {
	kinds := labKinds()
	all := slices.Clone(s.events)
	for _, h := range []*labHand{s.a, s.b} {
		for _, line := range h.output.all() {
			kind, ok := kinds[line.Msg]
			if !ok {
				continue
			}
			what := line.Msg
			if line.Order != "" {
				what += " (" + line.Order + ")"
				order = append(order, h.label+": "+line.Order)
			}
			if line.Said != "" {
				what += ": " + line.Said
			}
			all = append(all, labMoment{line.Time, storage.LabEvent{Who: h.label, Kind: kind, What: what, Value: line.Value}})
		}
	}
	slices.SortStableFunc(all, func(a, b labMoment) int { return a.at.Compare(b.at) })
	for _, m := range all {
		m.AtMS = m.at.Sub(s.began).Milliseconds()
		events = append(events, m.LabEvent)
	}
	return events, order
}

// beliefs are the times in which A and B believed to hold the lease. A frozen
// process believes what it believed when it was frozen.
func beliefs(events []storage.LabEvent) (list []storage.LabBelief) {
	open := map[string]int{}
	for _, e := range events {
		at, believes := open[e.Who]
		switch e.Kind {
		case storage.LabTook:
			open[e.Who] = len(list)
			list = append(list, storage.LabBelief{Who: e.Who, FromMS: e.AtMS, ToMS: events[len(events)-1].AtMS, End: "open"})
		case storage.LabLost, storage.LabReleased, storage.LabKilled:
			if believes {
				list[at].ToMS, list[at].End = e.AtMS, e.Kind
				delete(open, e.Who)
			}
		}
	}
	return list
}

// overlap is for how long two have believed it at once.
func overlap(list []storage.LabBelief) (ms int64) {
	for _, a := range list {
		for _, b := range list {
			if a.Who == labA && b.Who == labB {
				ms += max(0, min(a.ToMS, b.ToMS)-max(a.FromMS, b.FromMS))
			}
		}
	}
	return ms
}

// took is when a holder had the lease.
func took(list []storage.LabBelief, who string) int64 {
	i := slices.IndexFunc(list, func(b storage.LabBelief) bool { return b.Who == who })
	if i < 0 {
		return 0
	}
	return list[i].FromMS
}

// judge makes the result of a story that was told.
func (s *labStory) judge(fenced, unfenced int64) (storage.LabFault, error) {
	r := storage.LabFault{Fault: s.fault.name, Title: s.fault.title, Fenced: fenced, Unfenced: unfenced, Right: fenced == labRight, Lost: unfenced != labRight}
	r.Events, r.Order = s.gather()
	r.Beliefs = beliefs(r.Events)
	r.OverlapMS = overlap(r.Beliefs)
	r.TakeoverMS = max(0, took(r.Beliefs, labB)-s.hurt.Sub(s.began).Milliseconds())
	if s.fault.name == "failover" && r.OverlapMS == 0 {
		return r, errDistorted // A asked the new primary before B did
	}
	line, asked := s.a.output.find(func(l workerLine) bool { return l.Msg == heldAgain })
	r.Freed = asked && line.Said == gotIt
	r.Verdict = s.verdict(r)
	return r, nil
}

// together says whether two believed it at once. A busy machine wakes a process
// late, so that a tenth of the lease is none.
func together(f storage.LabFault, leaseMS int64) bool {
	return f.Fault == "failover" || f.OverlapMS > leaseMS/10
}

// verdict is how it came out, in a sentence or two.
func (s *labStory) verdict(r storage.LabFault) string {
	if !r.Right {
		return fmt.Sprintf("BROKEN: behind the fence stands %d, and must be %d.", r.Fenced, labRight)
	}
	after := seconds(r.TakeoverMS)
	refused := fmt.Sprintf("The fence refused A's older write: %d stays. Without it %d stands, B's update is lost, and PostgreSQL reported success to both.", r.Fenced, r.Unfenced)
	switch {
	case s.fault.name == "kill":
		return fmt.Sprintf("B had the lease %s after A was killed. Nothing of A came later, so both balances are right.", after)
	case r.Freed:
		return fmt.Sprintf("B had the lease after %s, and A's release FREED it: a third could have had it.", after)
	case s.fault.name == "release":
		return fmt.Sprintf("B had the lease after %s. A's release did nothing to it: whoever asked was told that somebody has it.", after)
	case together(r, s.lease.Milliseconds()):
		return fmt.Sprintf("B had the lease after %s, and for %s both believed to hold it. %s", after, seconds(r.OverlapMS), refused)
	}
	return fmt.Sprintf("B had the lease after %s; A knew before that it had lost it. What A had sent came all the same. %s", after, refused)
}

func seconds(ms int64) string {
	if ms < 100 {
		return fmt.Sprintf("%d ms", ms)
	}
	return fmt.Sprintf("%.1f s", (time.Duration(ms) * time.Millisecond).Seconds())
}

// labCell is a verdict as short as a table wants it.
func labCell(lease int64, f storage.LabFault) string {
	switch {
	case f.Skipped != "":
		return "not played"
	case !f.Right:
		return "BROKEN"
	case f.Freed:
		return "frees B's lease"
	case f.Fault == "release":
		return "does nothing"
	case f.Fault == "kill":
		return "B after " + seconds(f.TakeoverMS)
	case together(f, lease):
		return "B after " + seconds(f.TakeoverMS) + ", both believe"
	}
	return "B after " + seconds(f.TakeoverMS) + ", one at a time"
}
