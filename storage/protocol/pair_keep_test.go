package protocol_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/protocol"
)

// The steps of those who keep and delete.

var (
	everything = storage.Scope{All: true}
	ada        = storage.AuditEntry{Actor: "Ada", ActorKind: storage.ActorUser}
)

func (p *pair) deleteExport(s step) (want, got string) {
	return wants(p.ref.DeleteExport(s.export)), told(p.store.DeleteExport(p.ctx, everything, p.exports[s.export]))
}

func (p *pair) restoreExport(s step) (want, got string) {
	return wants(p.ref.RestoreExport(s.export)), told(p.store.RestoreExport(p.ctx, everything, p.exports[s.export], ada))
}

func (p *pair) pin(s step) (want, got string) {
	var attempt *uuid.UUID
	if s.attempt != 0 {
		s.export = p.ref.Attempt(s.attempt).Export
		attempt = &p.attempts[s.attempt].ID
	}
	want = "not found"
	if p.ref.Pin(s.export, s.attempt, s.op == "pin") {
		want = "ok"
	}
	if s.op == "unpin" {
		return want, told(p.store.UnpinExport(p.ctx, everything, p.exports[s.export], attempt, ada))
	}
	return want, told(p.store.PinExport(p.ctx, everything, p.exports[s.export], attempt, "year end", ada))
}

// Export 0 stands for all of the tenant.

func (p *pair) hold(s step) (want, got string) {
	want = wants(p.ref.Hold(s.export))
	if s.export == 0 {
		return want, told(p.store.HoldTenant(p.ctx, "acme", nil, "lawsuit", ada))
	}
	return want, told(p.store.HoldExport(p.ctx, everything, p.exports[s.export], "lawsuit", ada))
}

func (p *pair) release(s step) (want, got string) {
	want = wants(p.ref.Release(s.export))
	if s.export == 0 {
		return want, told(p.store.ReleaseTenant(p.ctx, "acme", nil, ada))
	}
	return want, told(p.store.ReleaseExport(p.ctx, everything, p.exports[s.export], ada))
}

func (p *pair) setRule(s step) (want, got string) {
	want = "not found"
	if p.ref.SetRule(s.rule) {
		want = "ok"
	}
	kind := "report"
	if !s.rule.Set {
		return want, told(p.store.RemoveRetention(p.ctx, nil, &kind, ada))
	}
	return want, told(p.store.SetRetention(p.ctx, storage.RetentionRule{
		Kind: &kind, CurrentDays: days(s.rule.Current), SupersededDays: days(s.rule.Superseded), SupersededKeep: s.rule.Newest,
	}, ada))
}

func days(s protocol.Span) *int {
	switch s {
	case protocol.NoTime:
		return new(0)
	case protocol.OneDay:
		return new(1)
	}
	return nil
}

// dayPasses moves what rules count from, and when to look, into the past.
func (p *pair) dayPasses() {
	p.t.Helper()
	p.ref.DayPasses()
	p.exec(`UPDATE fenceline.exports SET published_at = published_at - interval '2 days', look_at = look_at - interval '2 days'`)
	p.exec(`UPDATE fenceline.attempts SET replaced_at = replaced_at - interval '2 days', stay_until = stay_until - interval '2 days'`)
}

// lookSoon lets the hour pass after which a clean-up looks again at an export that a job has worked on.
func (p *pair) lookSoon() {
	p.t.Helper()
	p.exec("UPDATE fenceline.exports SET look_at = clock_timestamp() WHERE look_at < clock_timestamp() + interval '1 hour'")
}

// plan is compared, and what is planned is there to be done by the steps after it.
func (p *pair) plan(s step) (want, got string) {
	p.t.Helper()
	p.lookSoon()
	p.must(p.store.ApplyRetention(p.ctx))
	take := p.takes(s)
	var wanted, gotten []string
	p.planned = nil
	for _, d := range p.ref.Plan(take) {
		wanted = append(wanted, fmt.Sprintf("%s attempt %d", d.Do, d.Attempt))
		switch held := p.ref.HeldAll() || p.ref.Export(d.Export).Held; {
		case d.Do == "condemn" && take.Lost && !held: // in the same run
			wanted = append(wanted, fmt.Sprintf("delete attempt %d", d.Attempt))
		case d.Do == "delete":
			p.planned = append(p.planned, step{op: "doom", attempt: d.Attempt, superseded: take.Superseded})
		case d.Do == "expire":
			p.planned = append(p.planned, step{op: "expire", export: d.Export})
		}
	}
	names := p.names()
	_, err := storage.NewSweep(p.store, p.local, p.options(take)).Plan(p.ctx, func(it storage.SweepItem) error {
		gotten = append(gotten, fmt.Sprintf("%s attempt %s", it.Action, names[it.Attempt]))
		return nil
	})
	p.must(err)
	slices.Sort(wanted)
	slices.Sort(gotten)
	return strings.Join(wanted, ", "), strings.Join(gotten, ", ")
}

// isPlanned reports whether the last plan said so.
func (p *pair) isPlanned(s step) bool { return slices.Contains(p.planned, s) }

func (p *pair) doom(s step) (want, got string) {
	if !p.isPlanned(s) {
		return "", ""
	}
	want = p.unlessClosed(p.ref.Doom(s.attempt, !s.superseded))
	grace := p.options(protocol.Take{Superseded: s.superseded}).Superseded.Seconds()
	return want, p.taken("SELECT fenceline.doom_attempts(ARRAY[$1::uuid], $2)", p.attempts[s.attempt].ID, grace)
}

func (p *pair) expire(s step) (want, got string) {
	if !p.isPlanned(s) {
		return "", ""
	}
	return p.unlessClosed(p.ref.Expire(s.export)), p.taken("SELECT fenceline.expire_exports(ARRAY[$1::uuid])", p.exports[s.export])
}

// unlessClosed is what a decision of the clean-up answers.
func (p *pair) unlessClosed(done bool) string {
	if p.ref.Epoch() != protocol.EpochOpen {
		return "recovery needed"
	}
	return fmt.Sprint(done)
}
