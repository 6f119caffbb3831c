package storage

import (
	"fmt"
	"time"
)

// reason is a kind of garbage: what becomes of it, how it is found, and what is
// said about it. The table below is the only place that knows them; the plan, the
// run, what waits and the metrics are made from it.
type reason struct {
	name   string // stable, for programs
	action string // condemn, delete, or probe (look again at what was deleted)
	// from, where and since are the SQL of it: since is when it became garbage, and with key it is the
	// order of a partial index, so that looking costs what became garbage and not what exists.
	from, where, since, key string
	bytes                   string
	// age is for how long it must have been garbage before it is due.
	age func(SweepOptions) time.Duration
	why func(SweepOptions, SweepItem) string
}

const (
	reasonSilent   = "silent"
	reasonLost     = "lost"
	reasonReplaced = "replaced"
	reasonProbe    = "probe"
	reasonOutlived = "outlived"
	reasonDeleted  = "export-deleted"
	reasonExpired  = "expired"
)

// reasons are in the order in which a run goes through them: what it condemns is
// there for the next one to find.
func reasons() []reason {
	const attempts = "fenceline.attempts a"
	return []reason{
		{
			name: reasonSilent, action: "condemn", from: attempts, where: "a.state IN ('running', 'sealed')", since: "a.heartbeat_at", key: "a.id", bytes: "a.bytes",
			age: func(o SweepOptions) time.Duration { return o.Grace },
			why: func(o SweepOptions, _ SweepItem) string {
				return "gave no heartbeat" + longer(" for more than %s", o.Grace)
			},
		},
		{
			name: reasonLost, action: "delete", from: attempts, where: "a.state IN ('fenced', 'failed', 'cancelled', 'condemned') AND a.stay_until IS NULL", since: "a.finished_at", key: "a.id", bytes: "a.bytes",
			age: func(o SweepOptions) time.Duration { return o.Quarantine },
			why: func(o SweepOptions, it SweepItem) string {
				return fmt.Sprintf("was %s%s and can never be published", it.State, longer(" more than %s ago", o.Quarantine))
			},
		},
		{
			name: reasonReplaced, action: "delete", from: attempts, where: "a.state = 'superseded' AND a.stay_until IS NULL", since: "a.replaced_at", key: "a.id", bytes: "a.bytes",
			age: func(o SweepOptions) time.Duration { return o.Superseded },
			why: func(o SweepOptions, it SweepItem) string {
				return "was replaced by a newer publication" + longer(" more than %s ago", o.Superseded) + it.byRule()
			},
		},
		{
			name: reasonOutlived, action: "delete", from: attempts, where: "a.state = 'superseded' AND a.stay_until < 'infinity'", since: "a.stay_until", key: "a.id", bytes: "a.bytes",
			age: func(SweepOptions) time.Duration { return 0 },
			why: func(_ SweepOptions, it SweepItem) string {
				return "was replaced by newer publications and was kept for as long as it had to be" + it.byRule()
			},
		},
		{
			name: reasonProbe, action: "probe", from: attempts, where: "a.probe_at IS NOT NULL", since: "a.probe_at", key: "a.id", bytes: "0::bigint",
			age: func(SweepOptions) time.Duration { return 0 },
			why: func(SweepOptions, SweepItem) string {
				return "was deleted; looked at again, in case a frozen worker wrote after that"
			},
		},
		{
			name: reasonDeleted, action: "delete",
			from:  "fenceline.exports a_of JOIN fenceline.attempts a ON a.id = a_of.attempt_id AND a.state = 'published'",
			where: "a_of.deleted_at IS NOT NULL AND a_of.attempt_id IS NOT NULL AND a_of.files_gone_at IS NULL AND a.stay_until IS NULL", since: "a_of.deleted_at", key: "a_of.id", bytes: "a.bytes",
			age: func(o SweepOptions) time.Duration { return o.Superseded },
			why: func(o SweepOptions, _ SweepItem) string {
				return "belongs to an export that was deleted" + longer(" more than %s ago", o.Superseded)
			},
		},
		{ // the last one: its files go with a later run
			name: reasonExpired, action: "expire",
			from:  "fenceline.exports a_of JOIN fenceline.attempts a ON a.id = a_of.attempt_id",
			where: "a_of.deleted_at IS NULL AND a_of.look_at < 'infinity'", since: "a_of.look_at", key: "a_of.id", bytes: "a.bytes",
			age: func(SweepOptions) time.Duration { return 0 },
			why: func(_ SweepOptions, it SweepItem) string {
				return "is the current one of an export whose time is over" + it.byRule()
			},
		},
	}
}

// toCome is what the run itself will make due when it comes to it: with no
// quarantine it deletes what it has condemned. A plan needs it said.
func toCome(o SweepOptions) (reason, bool) {
	silent := reasons()[0]
	silent.action, silent.name = "delete", reasonLost
	silent.why = func(o SweepOptions, _ SweepItem) string {
		return "will have been condemned and can never be published"
	}
	return silent, o.Quarantine <= 0
}

// longer says for how long something is garbage already; nothing when no time has to pass.
func longer(text string, age time.Duration) string {
	if age <= 0 {
		return ""
	}
	return fmt.Sprintf(text, age)
}

// keepable says that a rule, a pin or a hold may keep what is garbage for this reason.
func (r reason) keepable() bool { return r.action == "delete" || r.action == "expire" }

// staysSQL says of a page's line p that it stays after all, where k is what keeps it.
func (r reason) staysSQL() string {
	if r.action == "expire" {
		return "NOT (k.what = 'current' AND k.until <= clock_timestamp()) OR EXISTS (SELECT FROM fenceline.jobs j WHERE j.export_id = p.export_id AND j.state IN ('queued', 'running', 'cancelling'))"
	}
	return "k.until IS NOT NULL"
}

// tenant is the column that the index of one tenant begins with.
func (r reason) tenant() string {
	if r.name == reasonDeleted || r.name == reasonExpired {
		return "a_of.tenant"
	}
	return "a.tenant"
}

// filter is what is garbage for this reason since before $1 (is: "<"), or later (">="); $2 is a tenant
// when there is one.
func (r reason) filter(is, tenant string) string {
	text := r.from + " WHERE " + r.where + " AND " + r.since + " " + is + " $1::timestamptz"
	if tenant != "" {
		text += " AND " + r.tenant() + " = $2"
	}
	return text
}
