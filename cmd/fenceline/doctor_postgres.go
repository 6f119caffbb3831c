package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
)

func askConnection(ctx context.Context, d *doctor) (finding, error) {
	took, err := d.postgres.Latency(ctx)
	if err != nil {
		return finding{}, err
	}
	found := fmt.Sprintf("answers in %s at %s", approximately(took), d.postgres.Address())
	if took > d.limits.latency {
		return warning(found, "speed: each attempt asks PostgreSQL some ten times, one question after the other",
			"run the workers near the database"), nil
	}
	return fine("%s", found), nil
}

// oldestPostgres is what the migrations and the tests are made for.
const oldestPostgres = 14

func judgeVersion(s storage.ServerFacts) finding {
	version, _, _ := strings.Cut(s.Version, " ")
	if s.VersionNumber/10_000 < oldestPostgres {
		return danger("PostgreSQL "+version, "L1–L8: they are shown to hold on PostgreSQL 14 and newer only", "move to a newer PostgreSQL")
	}
	return fine("PostgreSQL %s", version)
}

func judgePrimary(s storage.ServerFacts) finding {
	if s.Standby {
		return danger("the server is a standby",
			"L3, L5: what is read here may be older than what was published, and no job can be accepted or end",
			"let DATABASE_URL name the primary; with several hosts in it, add target_session_attrs=read-write")
	}
	if s.ReadOnly {
		return danger("default_transaction_read_only is on", "L5: no job can be accepted or end",
			"ALTER ROLE or ALTER DATABASE … RESET default_transaction_read_only, wherever it was set")
	}
	return fine("a primary that takes writes, as role %s", s.User)
}

func judgeFsync(s storage.ServerFacts) finding {
	if s.Fsync {
		return fine("on")
	}
	return danger("fsync is off", "L1–L5: when the machine stops, commits that were reported are gone or the database is damaged",
		"ALTER SYSTEM SET fsync = on; then SELECT pg_reload_conf()")
}

func judgeFullPages(s storage.ServerFacts) finding {
	if s.FullPageWrites {
		return fine("on")
	}
	return danger("full_page_writes is off", "L1–L5: a page that was half written when the machine stopped stays damaged",
		"ALTER SYSTEM SET full_page_writes = on; then SELECT pg_reload_conf()")
}

func judgeCommit(s storage.ServerFacts) finding {
	if s.SynchronousCommit == "off" {
		return danger("synchronous_commit is off for role "+s.User,
			"L2, L3, L5: a crash undoes commits that were reported: a publication that was read, a token, an accepted job",
			"ALTER SYSTEM SET synchronous_commit = on, or RESET it for the role or database that has it off; then connect anew")
	}
	if len(s.Lax) > 0 {
		return warning("synchronous_commit is on here, but off for "+strings.Join(s.Lax, " and "),
			"nothing, as long as no part of Fenceline connects so", "RESET synchronous_commit there if one does")
	}
	return fine("synchronous_commit is %s", s.SynchronousCommit)
}

func judgeIsolation(s storage.ServerFacts) finding {
	if s.Isolation == "read committed" {
		return fine("%s", s.Isolation)
	}
	return danger("transactions are "+s.Isolation+" by default",
		"L5: the protocol refuses to run in them, because a snapshot older than a row lock cannot see who won it; jobs never end",
		"RESET default_transaction_isolation for the role, database or server that sets it")
}

func judgeReplicationRole(s storage.ServerFacts) finding {
	if s.ReplicationRole != "replica" {
		return fine("run in sessions of this role")
	}
	return danger("session_replication_role is replica for role "+s.User,
		"L1, L2, L4, L6: neither the guards nor foreign keys run in its sessions", "RESET session_replication_role for the role or database that sets it")
}

func askPooler(_ context.Context, d *doctor) (finding, error) {
	shared, err := d.sessions()
	if err != nil {
		return finding{}, err
	}
	if shared == "" {
		return fine("none in between, or one that keeps sessions"), nil
	}
	if strings.HasPrefix(shared, "no transaction") {
		return warning("a pooler that allows no transactions: "+shared, "speed: nothing can be done through it; jobs wait", "pool in transaction or session mode"), nil
	}
	if d.conf.DirectURL != "" {
		return fine("a pooler that does not keep sessions (%s); messages pass by it, over DATABASE_DIRECT_URL", shared), nil
	}
	return warning("a pooler that does not keep sessions: "+shared,
		"speed: no message arrives, so jobs begin and pages change when they are looked at, once a second",
		"let DATABASE_DIRECT_URL lead to PostgreSQL itself, or pool in session mode"), nil
}

func askMessages(ctx context.Context, d *doctor) (finding, error) {
	const do = "let LISTEN and NOTIFY through between the workers and PostgreSQL"
	shared, err := d.sessions()
	if err != nil {
		return finding{}, err
	}
	if shared != "" && d.conf.DirectURL == "" {
		return warning("not tried: behind such a pooler none arrives", "speed: jobs begin up to a second late", do), nil
	}
	arrived, err := d.postgres.Hears(ctx, d.limits.check/2)
	if err != nil {
		return finding{}, err
	}
	if !arrived {
		return warning("a message that was sent did not arrive", "speed: jobs begin up to a second late", do), nil
	}
	return fine("arrive from one session in another"), nil
}

// connectionsOf is how many connections a worker takes at most: its pool, a
// snapshot for each attempt, and those that listen.
func connectionsOf(concurrency int) int { return 2*concurrency + 12 + concurrency + 2 }

// connectionsOfTheRest is room for the dashboard, the scheduler and the command line.
const connectionsOfTheRest = 20

func askConnections(ctx context.Context, d *doctor) (finding, error) {
	c, err := d.postgres.Connections(ctx)
	if err != nil {
		return finding{}, err
	}
	if shared, err := d.sessions(); err == nil && shared != "" {
		return fine("%d of at most %d are open; a pooler limits them", c.Ours+c.Other, c.Max), nil
	}
	need := connectionsOfTheRest
	workers, err := d.workers()
	who := fmt.Sprintf("%d run", len(workers))
	for _, w := range workers {
		need += connectionsOf(w.Concurrency)
	}
	if err != nil || len(workers) == 0 {
		need, who = need+connectionsOf(d.conf.Concurrency), "one of this configuration"
	}
	found := fmt.Sprintf("at most %d, of which others have %d; workers (%s) and the rest may take %d", c.Max, c.Other, who, need)
	if need+c.Other > c.Max {
		return warning(found, "speed: attempts wait for a connection or cannot begin",
			fmt.Sprintf("raise max_connections (or the limit of the role or database) above %d, or lower FENCELINE_CONCURRENCY", need+c.Other)), nil
	}
	return fine("%s", found), nil
}

func askTransactions(ctx context.Context, d *doctor) (finding, error) {
	l, err := d.postgres.LongTransactions(ctx, d.limits.longTransaction)
	if err != nil {
		return finding{}, err
	}
	hidden := ""
	if l.Hidden > 0 {
		hidden = fmt.Sprintf("; those of %s of other roles are hidden from this role (GRANT pg_read_all_stats)", count.Of(l.Hidden, "session"))
	}
	if l.Count == 0 {
		return fine("none is open for more than %s%s", approximately(d.limits.longTransaction), hidden), nil
	}
	return warning(fmt.Sprintf("%s open for more than %s, the oldest for %s: %s%s", areOpen(l.Count), approximately(d.limits.longTransaction),
		approximately(l.Oldest), l.Who, hidden),
		"speed: VACUUM removes nothing that is newer, so tables and indexes grow; and whoever waits for its locks waits as long",
		"end it, or SELECT pg_terminate_backend(…); ROLLBACK PREPARED … when it is a prepared one"), nil
}

func areOpen(n int) string {
	if n == 1 {
		return "a transaction is"
	}
	return count.Of(n, "transaction") + " are"
}

func askPostgresClock(ctx context.Context, d *doctor) (finding, error) {
	ahead, within, err := d.postgres.Clock(ctx, d.now)
	if err != nil {
		return finding{}, err
	}
	return d.judgeClock("PostgreSQL", ahead, within), nil
}

// judgeClock compares a clock with that of this host.
func (d *doctor) judgeClock(whose string, ahead, within time.Duration) finding {
	if ahead.Abs() <= d.limits.clock+within {
		return fine("%s from this host's, give or take %s", approximately(ahead.Abs()), approximately(within))
	}
	how := "ahead of"
	if ahead < 0 {
		how = "behind"
	}
	return warning(fmt.Sprintf("the clock of %s is %s %s this host's", whose, approximately(ahead.Abs()), how),
		"nothing: only the clock of the PostgreSQL primary decides (L9); but people compare times of logs and pages",
		"let both hosts follow the same time servers")
}
