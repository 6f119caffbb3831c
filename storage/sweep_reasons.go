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
	reasonDeleted  = "export-deleted"
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
				return fmt.Sprintf("gave no heartbeat for more than %s", o.Grace)
			},
		},
		{
			name: reasonLost, action: "delete", from: attempts, where: "a.state IN ('fenced', 'failed', 'cancelled', 'condemned')", since: "a.finished_at", key: "a.id", bytes: "a.bytes",
			age: func(o SweepOptions) time.Duration { return o.Quarantine },
			why: func(o SweepOptions, it SweepItem) string {
				return fmt.Sprintf("was %s more than %s ago and can never be published", it.State, o.Quarantine)
			},
		},
		{
			name: reasonReplaced, action: "delete", from: attempts, where: "a.state = 'superseded'", since: "a.replaced_at", key: "a.id", bytes: "a.bytes",
			age: func(o SweepOptions) time.Duration { return o.Superseded },
			why: func(o SweepOptions, _ SweepItem) string {
				return fmt.Sprintf("was replaced by a newer publication more than %s ago", o.Superseded)
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
			where: "a_of.deleted_at IS NOT NULL AND a_of.attempt_id IS NOT NULL AND a_of.files_gone_at IS NULL", since: "a_of.deleted_at", key: "a_of.id", bytes: "a.bytes",
			age: func(o SweepOptions) time.Duration { return o.Superseded },
			why: func(o SweepOptions, _ SweepItem) string {
				return fmt.Sprintf("belongs to an export that was deleted more than %s ago", o.Superseded)
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
		return fmt.Sprintf("will have been condemned more than %s ago and can never be published", o.Quarantine)
	}
	return silent, o.Quarantine <= 0
}

// tenant is the column that the index of one tenant begins with.
func (r reason) tenant() string {
	if r.name == reasonDeleted {
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
