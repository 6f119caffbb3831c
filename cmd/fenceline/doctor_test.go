package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/pflag"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/storagetest"
)

// patient is a deployment on which a test does damage.
type patient struct {
	*site
	redis *redistest.Redis
}

func newPatient(t *testing.T, redis *redistest.Redis) *patient {
	t.Helper()
	p := &patient{newSite(t, redis), redis}
	p.env["FILES_DIR"] = p.markedFolder(p.dir)
	return p
}

// markedFolder is a files folder of this installation, as a worker leaves it.
func (p *patient) markedFolder(in string) string {
	p.t.Helper()
	store := p.store()
	id, err := store.Installation(p.t.Context())
	p.must(err)
	l, err := files.OpenLocal(filepath.Join(in, "files"), id)
	p.must(err)
	p.must(l.Close())
	return l.Dir()
}

func (p *patient) store() *storage.Store {
	p.t.Helper()
	store, err := storage.Open(p.t.Context(), p.env["DATABASE_URL"], storage.Options{MaxConns: 2})
	p.must(err)
	p.t.Cleanup(store.Close)
	return store
}

func (p *patient) connect() *pgx.Conn {
	p.t.Helper()
	conn, err := pgx.Connect(p.t.Context(), p.env["DATABASE_URL"])
	p.must(err)
	p.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	})
	return conn
}

// exec runs statements on the database, past every function of ours.
func (p *patient) exec(statements string) {
	p.t.Helper()
	if err := p.connect().PgConn().Exec(p.t.Context(), statements).Close(); err != nil {
		p.t.Fatalf("%s: %v", statements, err)
	}
}

// alter changes the database of this test, for sessions to come.
func (p *patient) alter(what string) {
	p.t.Helper()
	p.exec("ALTER DATABASE " + p.connect().Config().Database + " " + what)
}

// attempt begins an attempt; its worker is never heard of again.
func (p *patient) attempt(key string) (storage.Job, storage.Begun) {
	p.t.Helper()
	ctx, store := p.t.Context(), p.store()
	job := p.job(key, "default")
	b, err := store.BeginAttempt(ctx, job.ID, "w-1")
	p.must(err)
	return job, b
}

// job inserts a job; statements run in the same transaction, before anybody sees it.
func (p *patient) job(key, queue string, statements ...string) (job storage.Job) {
	p.t.Helper()
	store := p.store()
	p.must(store.Transaction(p.t.Context(), func(tx storage.Tx) (err error) {
		job, _, err = store.InsertJob(p.t.Context(), tx, storage.NewJob{
			Tenant: "acme", Kind: "report", Key: key, Title: key, Queue: queue, Payload: json.RawMessage(`{}`), PayloadVersion: 1,
			MaxAttempts: 3, MaxCrashes: 3, Timeout: time.Minute, RequestHash: []byte("hash"),
		})
		for _, statement := range statements {
			err = errors.Join(err, tx.Exec(statement).Error)
		}
		return err
	}))
	return job
}

func (p *patient) publish(key string) {
	p.t.Helper()
	_, b := p.attempt(key)
	store := p.store()
	p.must(store.Seal(p.t.Context(), b.ID, storage.Sealed{Rows: 1, Files: []storage.File{{
		Name: "a.csv", Object: "1-a.csv", Format: "csv", MediaType: "text/csv", Size: 1, SHA256: make([]byte, 32), Rows: 1,
	}}}))
	p.must(store.Publish(p.t.Context(), b.ID))
}

// config sets Redis.
func (p *patient) config(command ...any) {
	p.t.Helper()
	p.must(p.openRedis().Client.Do(p.t.Context(), command...).Err())
}

func (p *patient) openRedis() jobs.Redis {
	p.t.Helper()
	r, err := jobs.OpenRedis(p.t.Context(), p.env["REDIS_URL"], p.env["FENCELINE_NAMESPACE"])
	p.must(err)
	p.t.Cleanup(func() { _ = r.Client.Close() })
	return r
}

// examine makes some checks, and those that they need, with a doctor that was changed.
func (p *patient) examine(change func(*doctor), names ...string) map[string]finding {
	p.t.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	addFlags(flags)
	conf, err := loadConfig(flags, func(key string) string { return p.env[key] })
	p.must(err)
	d, err := newDoctor(p.t.Context(), conf, usualLimits())
	p.must(err)
	defer d.close()
	if change != nil {
		change(d)
	}
	var wanted []check
	for _, c := range slices.Backward(checks()) {
		if slices.Contains(names, c.name) {
			wanted, names = append(wanted, c), append(names, c.needs)
		}
	}
	slices.Reverse(wanted)
	list, err := d.examine(p.t.Context(), wanted)
	p.must(err)
	found := map[string]finding{}
	for _, f := range list {
		found[f.Check] = f
	}
	return found
}

// damage is something wrong with a deployment and what the doctor says to it.
type damage struct {
	check string
	grade string
	says  string // a part of what was found
	// Either the deployment is hurt, or the doctor is changed, or its judgement asked about what cannot be
	// had on every machine.
	hurt   func(*patient)
	change func(*doctor)
	judge  func() finding
}

func damages() []damage {
	sql := func(statements string) func(*patient) { return func(p *patient) { p.exec(statements) } }
	alter := func(what string) func(*patient) { return func(p *patient) { p.alter(what) } }
	env := func(name, value string) func(*patient) { return func(p *patient) { p.env[name] = value } }
	config := func(command ...any) func(*patient) { return func(p *patient) { p.config(command...) } }
	inAnHour := func(d *doctor) { d.now = func() time.Time { return time.Now().Add(time.Hour) } }
	usual := &doctor{limits: usualLimits()}
	const dueYesterday = "UPDATE fenceline.jobs SET due_at = clock_timestamp() - interval '1 day'"
	delivery := func(stateAndDue string) func(*patient) {
		return sql(`INSERT INTO fenceline.notify_targets (id, tenant, name, kind, addresses, topics) VALUES ('00000000-0000-7000-8000-000000000001', 'acme', 'a', 'mail', '{a@example.com}', '{*}');
			INSERT INTO fenceline.deliveries (id, target_id, tenant, topic, body, state, next_at)
			VALUES ('00000000-0000-7000-8000-000000000002', '00000000-0000-7000-8000-000000000001', 'acme', 'test', '{}', ` + stateAndDue + ")")
	}
	const fencedOff = "UPDATE fenceline.attempts SET reason = 'lease_lost'"
	return []damage{
		{check: "postgres.connection", grade: gradeDanger, says: "connect", hurt: env("DATABASE_URL", "postgres://u:secret@127.0.0.1:1/d")},
		{check: "postgres.connection", grade: gradeWarning, says: "answers in", change: func(d *doctor) { d.limits.latency = 0 }},
		{check: "postgres.version", grade: gradeDanger, says: "PostgreSQL 13.4", judge: func() finding {
			return judgeVersion(storage.ServerFacts{Version: "13.4 (Debian)", VersionNumber: 130004})
		}},
		{check: "postgres.primary", grade: gradeDanger, says: "standby", judge: func() finding { return judgePrimary(storage.ServerFacts{Standby: true}) }},
		{check: "postgres.primary", grade: gradeDanger, says: "default_transaction_read_only", hurt: alter("SET default_transaction_read_only = on")},
		{check: "postgres.fsync", grade: gradeDanger, says: "fsync is off", hurt: func(*patient) {}}, // as storagetest starts its server
		{check: "postgres.full_page_writes", grade: gradeDanger, says: "full_page_writes is off", hurt: func(*patient) {}},
		{check: "postgres.commit", grade: gradeDanger, says: "synchronous_commit is off", hurt: alter("SET synchronous_commit = off")},
		{check: "postgres.commit", grade: gradeWarning, says: "off for role x", judge: func() finding {
			return judgeCommit(storage.ServerFacts{SynchronousCommit: "on", Lax: []string{"role x"}})
		}},
		{check: "postgres.isolation", grade: gradeDanger, says: "serializable", hurt: alter("SET default_transaction_isolation = 'serializable'")},
		{check: "postgres.triggers", grade: gradeDanger, says: "replica", hurt: alter("SET session_replication_role = replica")},
		{check: "postgres.pooler", grade: gradeWarning, says: "two connections had the same session", hurt: func(p *patient) { p.pool("transaction") }},
		{check: "postgres.pooler", grade: gradeWarning, says: "no transaction can be begun", hurt: func(p *patient) { p.pool("statement") }},
		{check: "postgres.messages", grade: gradeWarning, says: "not tried", hurt: func(p *patient) { p.pool("transaction") }},
		{check: "postgres.connections", grade: gradeWarning, says: "at most 7", hurt: alter("CONNECTION LIMIT 7")},
		{check: "postgres.transactions", grade: gradeWarning, says: "session", change: func(d *doctor) { d.limits.longTransaction = 0 }, hurt: func(p *patient) {
			_, err := p.connect().Exec(p.t.Context(), "BEGIN")
			p.must(err)
		}},
		{check: "postgres.clock", grade: gradeWarning, says: "behind this host's", change: inAnHour},

		{check: "schema.migrations", grade: gradeDanger, says: "00002_protocol.sql", hurt: sql("DELETE FROM fenceline.schema_migrations WHERE version_id = 2")},
		{check: "schema.migrations", grade: gradeWarning, says: "[999]", hurt: sql("INSERT INTO fenceline.schema_migrations (version_id, is_applied) VALUES (999, true)")},
		{check: "schema.migrations", grade: gradeDanger, says: "no schema", hurt: sql("DROP SCHEMA fenceline CASCADE")},
		{check: "schema.sequence", grade: gradeDanger, says: "it was set back", hurt: func(p *patient) {
			p.attempt("a")
			p.exec("SELECT setval('fenceline.fence_tokens', 1, false)")
		}},
		{check: "schema.sequence", grade: gradeDanger, says: "token 2 was given out", hurt: func(p *patient) {
			p.exec("SELECT fenceline.fence_token('acme', 'account:1')")
			p.exec("SELECT fenceline.fence_write('acme', 'account:1', 1)")
			p.exec("SELECT setval('fenceline.fence_tokens', 1)")
		}},
		{check: "schema.sequence", grade: gradeDanger, says: "CACHE 32", hurt: sql("ALTER SEQUENCE fenceline.fence_tokens CACHE 32")},
		{check: "schema.sequence", grade: gradeDanger, says: "CYCLE", hurt: sql("ALTER SEQUENCE fenceline.fence_tokens CYCLE")},
		{check: "schema.sequence", grade: gradeDanger, says: "INCREMENT -1", hurt: sql("ALTER SEQUENCE fenceline.fence_tokens INCREMENT -1 START 5 RESTART 5")},
		{check: "schema.sequence", grade: gradeDanger, says: "left", hurt: sql("ALTER SEQUENCE fenceline.fence_tokens MAXVALUE 1000")},
		{check: "schema.functions", grade: gradeDanger, says: "function guard_job is not as migrated",
			hurt: sql("CREATE OR REPLACE FUNCTION fenceline.guard_job() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'")},
		{check: "schema.functions", grade: gradeWarning, says: "function tell is not as migrated",
			hurt: sql("CREATE OR REPLACE FUNCTION fenceline.tell() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")},
		{check: "schema.triggers", grade: gradeDanger, says: "trigger guard on exports is disabled", hurt: sql("ALTER TABLE fenceline.exports DISABLE TRIGGER guard")},
		{check: "schema.triggers", grade: gradeDanger, says: "trigger guard on fences is missing", hurt: sql("DROP TRIGGER guard ON fenceline.fences")},
		{check: "schema.triggers", grade: gradeWarning, says: "trigger tell_new on jobs is missing", hurt: sql("DROP TRIGGER tell_new ON fenceline.jobs")},
		{check: "schema.indexes", grade: gradeDanger, says: "index attempts_one_published is missing", hurt: sql("DROP INDEX fenceline.attempts_one_published")},
		{check: "schema.indexes", grade: gradeWarning, says: "index jobs_to_ring is missing", hurt: sql("DROP INDEX fenceline.jobs_to_ring")},
		{check: "schema.constraints", grade: gradeDanger, says: "exports.exports_pointer is missing", hurt: sql("ALTER TABLE fenceline.exports DROP CONSTRAINT exports_pointer")},
		{check: "schema.durable", grade: gradeDanger, says: "sweeps", hurt: sql("ALTER TABLE fenceline.sweeps SET UNLOGGED")},
		{check: "schema.snapshots", grade: gradeWarning, says: "issued_token", hurt: sql("ALTER TABLE fenceline.exports RENAME COLUMN issued_token TO given_token")},

		{check: "redis.connection", grade: gradeWarning, says: "connect", hurt: env("REDIS_URL", "redis://:secret@127.0.0.1:1/0")},
		{check: "redis.connection", grade: gradeWarning, says: "REDIS_URL is not set", hurt: env("REDIS_URL", "")},
		{check: "redis.connection", grade: gradeWarning, says: "REDIS_URL", hurt: env("REDIS_URL", "redis://:secret%zz@127.0.0.1:1/0")},
		{check: "redis.connection", grade: gradeWarning, says: "answers in", change: func(d *doctor) { d.limits.latency = 0 }},
		{check: "redis.nodes", grade: gradeWarning, says: "its certificate is not looked at", judge: func() finding {
			return judgeNodes(jobs.RedisLayout{Kind: jobs.RedisSingle, Primaries: []jobs.RedisNode{{Addr: "a:1"}}, Unverified: true})
		}},
		{check: "redis.nodes", grade: gradeWarning, says: "0 replicas", judge: func() finding {
			return judgeNodes(jobs.RedisLayout{Kind: jobs.RedisSentinel, Primaries: []jobs.RedisNode{{Addr: "a:1"}}, Sentinels: 3, SentinelsUp: 3})
		}},
		{check: "redis.nodes", grade: gradeWarning, says: "missing: b:2", judge: func() finding {
			return judgeNodes(jobs.RedisLayout{Kind: jobs.RedisCluster, Primaries: []jobs.RedisNode{{Addr: "a:1"}}, Missing: []string{"b:2"}})
		}},
		{check: "redis.version", grade: gradeWarning, says: "Redis 6.0.16", judge: func() finding {
			return judgeRedisVersion(jobs.RedisFacts{Server: "redis", Version: "6.0.16"})
		}},
		{check: "redis.role", grade: gradeWarning, says: "a replica", hurt: config("REPLICAOF", "127.0.0.1", "1")},
		{check: "redis.memory", grade: gradeWarning, says: "allkeys-lru", hurt: config("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")},
		{check: "redis.memory", grade: gradeWarning, says: "at most 1.0 MB", hurt: config("CONFIG", "SET", "maxmemory", "1000000")},
		{check: "redis.persistence", grade: gradeOK, says: "appends to a file", hurt: config("CONFIG", "SET", "appendonly", "yes")}, // irrelevant, by L9
		{check: "redis.clock", grade: gradeWarning, says: "behind this host's", change: inAnHour},

		{check: "lease.service", grade: gradeWarning, says: "redis: no lease can be had: the Redis of REDIS_URL", hurt: env("REDIS_URL", "")},
		{check: "lease.service", grade: gradeWarning, says: "postgres: no lease can be had: LEASE_URL leads to a pooler", hurt: func(p *patient) {
			p.pool("transaction")
			p.env["LEASE_URL"] = leasePostgres
		}},
		{check: "lease.service", grade: gradeWarning, says: "postgres: no lease can be had: connect", hurt: env("LEASE_URL", "postgres://u:secret@127.0.0.1:1/d")},
		{check: "lease.service", grade: gradeWarning, says: "its holder is said to be", judge: func() finding {
			return judgeLeaseService("etcd", leaseTrial{err: errors.New("the lease was given, and its holder is said to be \"x\"")}, usual)
		}},
		{check: "lease.service", grade: gradeOK, says: "another doctor held", judge: func() finding { return judgeLeaseService("kubernetes", leaseTrial{busy: true}, usual) }},
		{check: "lease.service", grade: gradeOK, says: "no lease: every worker may work", hurt: env("LEASE_URL", leaseNone)},

		{check: "files.folder", grade: gradeDanger, says: "mode 0757", hurt: func(p *patient) { p.must(os.Chmod(p.env["FILES_DIR"], 0o757)) }},
		{check: "files.folder", grade: gradeWarning, says: "does not exist", hurt: func(p *patient) { p.must(os.RemoveAll(p.env["FILES_DIR"])) }},
		{check: "files.folder", grade: gradeDanger, says: "but exports were published", hurt: func(p *patient) {
			p.publish("a")
			p.must(os.RemoveAll(p.env["FILES_DIR"]))
		}},
		{check: "files.folder", grade: gradeWarning, says: "runs as user 8", judge: func() finding {
			return judgeFolder("d", files.FolderFacts{Exists: true, Mode: 0o750, Owner: 7}, 8)
		}},
		{check: "files.mark", grade: gradeDanger, says: "the folder is of installation", hurt: func(p *patient) {
			p.exec("UPDATE fenceline.installation SET id = gen_random_uuid()")
		}},
		{check: "files.mark", grade: gradeDanger, says: `holds "photo.jpg"`, hurt: func(p *patient) {
			p.must(os.Remove(filepath.Join(p.env["FILES_DIR"], "FENCELINE.json")))
			p.must(os.WriteFile(filepath.Join(p.env["FILES_DIR"], "photo.jpg"), nil, 0o600))
		}},
		{check: "files.mark", grade: gradeWarning, says: "not yet marked", hurt: env("FILES_DIR", "no/such/folder")},
		{check: "files.names", grade: gradeDanger, says: "was not touched", hurt: func(p *patient) {
			p.exec("UPDATE fenceline.installation SET id = gen_random_uuid()")
		}},
		{check: "files.names", grade: gradeWarning, says: "not tried", hurt: func(p *patient) { p.must(os.RemoveAll(p.env["FILES_DIR"])) }},
		{check: "files.names", grade: gradeDanger, says: "replaced", judge: func() finding {
			return judgeNames(files.ProbeFacts{CreateRefuses: true, Links: true, Renames: true, Synced: 1, Problem: "replaced"})
		}},
		{check: "files.names", grade: gradeDanger, says: "no links", judge: func() finding {
			return judgeNames(files.ProbeFacts{CreateRefuses: true, Synced: 1, Problem: "no links"})
		}},
		{check: "files.sync", grade: gradeWarning, says: "took", change: func(d *doctor) { d.limits.sync = 0 }},
		{check: "files.sync", grade: gradeDanger, says: "fsync: not supported", judge: func() finding {
			return usual.judgeSync(files.ProbeFacts{Problem: "fsync: not supported"})
		}},
		{check: "files.system", grade: gradeDanger, says: "tmpfs", hurt: env("FILES_DIR", "/dev/shm")},
		{check: "files.system", grade: gradeWarning, says: "nfs", judge: func() finding { return judgeSystem(files.VolumeFacts{System: "nfs", Keeping: files.KeepsRemotely}) }},
		{check: "files.system", grade: gradeWarning, says: "overlay", judge: func() finding {
			return judgeSystem(files.VolumeFacts{System: "overlay", Keeping: files.KeepsInLayer})
		}},
		{check: "files.space", grade: gradeWarning, says: "% free", change: func(d *doctor) { d.limits.scarce = 2 }},
		{check: "files.space", grade: gradeDanger, says: "% free", change: func(d *doctor) { d.limits.gone = 2 }},
		{check: "files.space", grade: gradeDanger, says: "room for 5 more files", judge: func() finding {
			return usual.judgeSpace(files.VolumeFacts{Free: 90, Size: 100, FreeFiles: 5, MaxFiles: 1000})
		}},

		{check: "source.role", grade: gradeWarning, says: "may write", hurt: func(p *patient) { p.env["SOURCE_DATABASE_URL"] = p.env["DATABASE_URL"] }},
		{check: "settings.lease", grade: gradeWarning, says: "taken for lost while their worker lived", hurt: func(p *patient) {
			p.publish("a")
			p.exec(fencedOff)
		}},
		{check: "settings.lease", grade: gradeWarning, says: "has been silent for", hurt: func(p *patient) {
			p.env["FENCELINE_LEASE"] = "20m"
			p.attempt("a")
			p.exec("UPDATE fenceline.attempts SET heartbeat_at = clock_timestamp() - interval '15 minutes'")
		}},
		{check: "settings.lease", grade: gradeWarning, says: "FENCELINE_LEASE is 20m", hurt: func(p *patient) {
			p.env["FENCELINE_LEASE"] = "20m"
			p.publish("a")
		}},
		{check: "settings.sweep_grace", grade: gradeWarning, says: "SWEEP_GRACE is 1s", hurt: env("SWEEP_GRACE", "1s")},
		{check: "settings.sweep_superseded", grade: gradeDanger, says: "SWEEP_SUPERSEDED is 0s", hurt: env("SWEEP_SUPERSEDED", "0s")},
		{check: "settings.sweep_superseded", grade: gradeWarning, says: "SWEEP_SUPERSEDED is 10m", hurt: env("SWEEP_SUPERSEDED", "10m")},

		{check: "work.queues", grade: gradeDanger, says: "no worker serves slow", hurt: func(p *patient) {
			p.job("a", "slow", dueYesterday)
		}},
		{check: "work.queues", grade: gradeDanger, says: "who serves them is not known", hurt: func(p *patient) {
			p.job("a", "slow", dueYesterday)
			p.env["REDIS_URL"] = "redis://127.0.0.1:1/0"
		}},
		{check: "work.queues", grade: gradeWarning, says: "queue default: 1 job due, the first for 24h", hurt: func(p *patient) {
			p.start("work").says("worker started")
			r := p.openRedis()
			until(p.t, "the worker has told Redis of itself", func() bool {
				workers, err := r.Workers()
				return err == nil && len(workers) == 1
			})
			p.job("a", "default", dueYesterday, "UPDATE fenceline.jobs SET ring_at = clock_timestamp() + interval '1 day'") // no bell rings
		}},
		{check: "schema.epoch", grade: gradeDanger, says: "recovery is needed: the database is older than its files",
			hurt: sql("UPDATE fenceline.epoch SET state = 'stopped', reason = 'the database is older than its files'")},
		{check: "work.maintenance", grade: gradeWarning, says: "maintenance since", hurt: sql("UPDATE fenceline.installation SET maintenance_since = now(), maintenance_note = 'moving'")},
		{check: "work.maintenance", grade: gradeWarning, says: "paused: mail", hurt: sql("INSERT INTO fenceline.queues (name) VALUES ('mail')")},
		{check: "work.notices", grade: gradeWarning, says: "1 notice due to be sent", hurt: sql("INSERT INTO fenceline.outbox (topic, tenant, created_at) VALUES ('custom.a', 'acme', now() - interval '1 day')")},
		{check: "work.notices", grade: gradeWarning, says: "1 notice due to be sent", hurt: delivery("'pending', now() - interval '1 day'")},
		{check: "work.notices", grade: gradeWarning, says: "1 notice given up", hurt: delivery("'dead', now()")},
		{check: "work.lost", grade: gradeDanger, says: "1 job is left", hurt: func(p *patient) {
			p.attempt("a")
			p.exec("UPDATE fenceline.attempts SET heartbeat_at = clock_timestamp() - interval '1 day'")
		}},
		{check: "work.heartbeats", grade: gradeDanger, says: "in the future", hurt: func(p *patient) {
			p.attempt("a")
			p.exec("UPDATE fenceline.attempts SET heartbeat_at = clock_timestamp() + interval '1 hour'")
		}},
		{check: "work.orphans", grade: gradeDanger, says: "no clean-up has ever finished", hurt: func(p *patient) {
			p.attempt("a")
			p.exec("UPDATE fenceline.attempts SET heartbeat_at = clock_timestamp() - interval '1 day'")
		}},
		{check: "work.orphans", grade: gradeWarning, says: "the last clean-up without an error", hurt: func(p *patient) {
			p.attempt("a")
			p.exec("UPDATE fenceline.attempts SET heartbeat_at = clock_timestamp() - interval '1 day'; INSERT INTO fenceline.sweeps (worker, finished_at) VALUES ('w', clock_timestamp())")
		}},
		{check: "work.sweep", grade: gradeDanger, says: "broke off: boom", hurt: sql("INSERT INTO fenceline.sweeps (worker, finished_at, error) VALUES ('w', clock_timestamp(), 'boom')")},
		{check: "work.sweep", grade: gradeWarning, says: "3 items failed", hurt: sql("INSERT INTO fenceline.sweeps (worker, finished_at, failed) VALUES ('w', clock_timestamp(), 3)")},
		{check: "work.sweep", grade: gradeWarning, says: "was killed", hurt: sql("INSERT INTO fenceline.sweeps (worker) VALUES ('w')")},
		{check: "work.sweep", grade: gradeDanger, says: "holds the clean-up's lock", hurt: func(p *patient) {
			_, err := p.connect().Exec(p.t.Context(), "SELECT pg_advisory_lock(5063539405717766146)") // sweepLock of package storage
			p.must(err)
		}},
	}
}

// Every check notices what it is for.
func TestDoctorNotices(t *testing.T) {
	t.Parallel()
	noticed := map[string]bool{}
	for _, d := range damages() {
		noticed[d.check] = true
		t.Run(d.check+" "+d.says, func(t *testing.T) {
			t.Parallel()
			f := d.notice(t)
			if f.Grade != d.grade || !strings.Contains(f.Found, d.says) {
				t.Errorf("got %+v, want a %s that says %q", f, d.grade, d.says)
			}
			wellFormed(t, f)
		})
	}
	for _, c := range checks() {
		if !noticed[c.name] {
			t.Errorf("nothing shows that %s notices anything", c.name)
		}
	}
}

func (d damage) notice(t *testing.T) finding {
	if d.judge != nil {
		return d.judge()
	}
	redis := redistest.Shared(t)
	if strings.HasPrefix(d.check, "redis.") {
		redis = redistest.Server(t) // which can be changed
	}
	p := newPatient(t, redis)
	if d.hurt != nil { // before that the check is ok: see TestDoctorOfAHealthyDeployment
		d.hurt(p)
	}
	return p.examine(d.change, d.check)[d.check]
}

// wellFormed holds every finding to what a reader may expect.
func wellFormed(t *testing.T, f finding) {
	t.Helper()
	law := regexp.MustCompile(`^L[1-9]\b`).MatchString(f.Endangers)
	switch {
	case f.Grade == gradeDanger && !law, f.Grade == gradeWarning && law:
		t.Errorf("a danger is what endangers a law, and nothing else: %+v", f)
	case f.Grade == gradeOK && (f.Endangers != "nothing" || f.Do != ""), f.Grade != gradeOK && (f.Endangers == "" || f.Do == ""):
		t.Errorf("half a finding: %+v", f)
	case strings.Contains(f.Found+f.Do, "secret"):
		t.Errorf("it tells a password: %+v", f)
	case strings.ContainsAny(f.Found+f.Do+f.Endangers, "\n\t"):
		t.Errorf("more than a line: %+v", f)
	}
}

// What cannot be checked is a finding, and the other checks are made all the same.
func TestDoctorGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Shared(t))
	s.env["DATABASE_URL"] = "postgres://u:secret@127.0.0.1:1/d"
	r := s.run("doctor", "--json")
	var d diagnosis
	if err := json.Unmarshal([]byte(r.out), &d); err != nil || r.code != exitFailed {
		t.Fatalf("exit %d, %v: %s%s", r.code, err, r.out, r.err)
	}
	if len(d.Findings) != len(checks()) || d.OK+d.Warnings+d.Dangers != len(d.Findings) {
		t.Errorf("%d findings of %d checks, %d + %d + %d", len(d.Findings), len(checks()), d.OK, d.Warnings, d.Dangers)
	}
	for i, f := range d.Findings {
		wellFormed(t, f)
		c := checks()[i]
		if unchecked := strings.HasPrefix(f.Found, "cannot be checked: "); f.Check != c.name || unchecked && (f.Grade == gradeDanger) != (c.law != "") {
			t.Errorf("%+v for %s", f, c.name)
		}
		if c.part() == "redis" && f.Grade != gradeOK {
			t.Errorf("Redis is well: %+v", f)
		}
	}
}

// silent is a server that takes connections and never says a word.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// Nothing that hangs holds the doctor up: not the file system, and not the servers.
func TestDoctorDoesNotHang(t *testing.T) {
	t.Parallel()
	p := newPatient(t, redistest.Shared(t))
	mark := filepath.Join(p.env["FILES_DIR"], "FENCELINE.json")
	p.must(os.Remove(mark))
	p.must(syscall.Mkfifo(mark, 0o600)) // whoever opens it waits for a writer
	t.Cleanup(func() {
		if f, err := os.OpenFile(mark, os.O_RDWR, 0); err == nil { // lets them go
			_ = f.Close()
		}
	})
	hurry := func(d *doctor) { d.limits.check = 2 * time.Second }
	found := p.examine(hurry, "files.folder", "files.names", "files.space", "work.sweep")
	for name, grade := range map[string]string{"files.folder": gradeDanger, "files.names": gradeDanger, "files.space": gradeOK, "work.sweep": gradeOK} {
		if f := found[name]; f.Grade != grade || grade == gradeDanger && !strings.Contains(f.Found, "no answer within 2s") {
			t.Errorf("%+v", f)
		}
	}

	s := newPrivateSite(t)
	s.env["DATABASE_URL"], s.env["REDIS_URL"] = "postgres://u:secret@"+silent(t)+"/d?sslmode=disable", "redis://"+silent(t)
	started := time.Now()
	r := s.run("doctor")
	if took := time.Since(started); took > 30*time.Second || r.code != exitFailed {
		t.Errorf("it took %s, exit %d", took, r.code)
	}
	for _, line := range []string{"danger   connection         cannot be checked: no answer within 5s", "warning  connection         connect to Redis"} {
		if !strings.Contains(r.out, line) {
			t.Errorf("no %q in\n%s", line, r.out)
		}
	}
}

// durable is a folder on a disk: the folder for temporary files may be in memory.
func durable(t *testing.T) string {
	t.Helper()
	for _, in := range []string{"", "/var/tmp", "."} {
		dir, err := os.MkdirTemp(in, ".fenceline-doctor-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		if v, err := files.LookAtVolume(dir); err == nil && v.Keeping != files.KeepsInMemory {
			return dir
		}
	}
	t.Fatal("there is no folder on a disk to test with: set TMPDIR to one")
	return ""
}

// A deployment as it should be, with a worker and a publication.
func TestDoctorOfAHealthyDeployment(t *testing.T) {
	t.Parallel()
	server := storagetest.Server(t, map[string]string{"fsync": "on", "full_page_writes": "on"})
	p := &patient{site: newSite(t, redistest.Shared(t))}
	p.env["DATABASE_URL"], p.env["FILES_DIR"] = server.URL("postgres"), filepath.Join(durable(t), "files")
	p.ok("migrate")
	p.report("one", "-- title: One\nSELECT 1 AS n\n")
	w := p.start("work")
	w.says("worker started")
	p.ok("dispatch", "report", "one", "-o", filepath.Join(p.dir, "one.csv"))
	r := p.run("doctor")
	if r.code != 0 || !regexp.MustCompile(`(?m)^\d+ ok, \d+ warnings?, 0 dangers\n\z`).MatchString(r.out) {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	for _, line := range []string{"PostgreSQL\n", "schema\n", "Redis\n", "leases\n", "files\n", "settings\n", "work\n", "\n  ok       fsync              on\n"} {
		if !strings.Contains(r.out, line) {
			t.Errorf("no line %q in\n%s", line, r.out)
		}
	}
	d := asJSON[diagnosis](p.site, "doctor")
	if d.Dangers != 0 || len(d.Findings) != len(checks()) {
		t.Errorf("%+v", d)
	}
	for _, f := range d.Findings {
		wellFormed(t, f)
		// What belongs to the machine that the tests run on may give a warning.
		if f.Grade != gradeOK && f.Check != "files.system" && f.Check != "files.space" && f.Check != "files.sync" {
			t.Errorf("%+v", f)
		}
	}
	p.exec("ALTER TABLE fenceline.exports DISABLE TRIGGER guard")
	r = p.run("doctor")
	if r.code != exitFailed || !strings.Contains(r.err, "doctor: 1 danger\n") || !regexp.MustCompile(
		`(?m)^  danger   triggers           trigger guard on exports is disabled\n           endangers L1, L2, .*\n           do        ALTER TABLE .*\n`).MatchString(r.out) {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
}

// Nothing that the doctor does lasts.
func TestDoctorChangesNothing(t *testing.T) {
	t.Parallel()
	p := newPatient(t, redistest.Server(t))
	p.publish("a")
	p.attempt("b")
	state := func() string {
		var b strings.Builder
		conn := p.connect()
		for _, query := range []string{
			"SELECT string_agg(relname || ' ' || query_to_xml(CASE relkind WHEN 'S' THEN 'SELECT * FROM fenceline.' || relname ELSE 'SELECT t::text FROM fenceline.' || relname || ' t' END, true, false, '')::text, ' ' ORDER BY relname) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'fenceline' AND relkind IN ('r', 'S')",
			"SELECT string_agg(nspname || '.' || relname, ' ' ORDER BY 1) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace",
			"SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
		} {
			var text string
			p.must(conn.QueryRow(p.t.Context(), query).Scan(&text))
			fmt.Fprintln(&b, text)
		}
		p.must(filepath.WalkDir(p.dir, func(path string, d os.DirEntry, err error) error {
			fmt.Fprintln(&b, path, d.Type())
			return err
		}))
		r := p.openRedis()
		fmt.Fprintln(&b, r.Client.Keys(p.t.Context(), "*").Val(), r.Client.DBSize(p.t.Context()).Val())
		return b.String()
	}
	before := state()
	p.run("doctor")
	if after := state(); before != after || !strings.Contains(before, "FENCELINE.json") || !strings.Contains(before, "last_value") {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

// A folder that may be read and not written. Root may write everywhere, so the
// command runs as somebody else.
func TestDoctorMayNotWrite(t *testing.T) {
	t.Parallel()
	p := newPatient(t, redistest.Shared(t))
	path, err := binary()
	p.must(err)
	dir, err := os.MkdirTemp("", "fenceline-doctor-")
	p.must(err)
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "files"), 0o700); _ = os.RemoveAll(dir) })
	p.must(os.Chmod(dir, 0o755))
	p.must(os.Link(path, filepath.Join(dir, "fenceline"))) // a copy may be busy while other tests fork
	folder := p.markedFolder(dir)
	p.must(os.Chmod(filepath.Join(folder, "FENCELINE.json"), 0o644))
	p.must(os.Chmod(folder, 0o555))
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "fenceline"), "doctor", "--json")
	cmd.Dir = dir
	cmd.Env = []string{"DATABASE_URL=" + p.env["DATABASE_URL"], "REDIS_URL=" + p.env["REDIS_URL"], "FILES_DIR=" + folder}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.Output()
	var d diagnosis
	if json.Unmarshal(out, &d) != nil || cmd.ProcessState.ExitCode() != exitFailed {
		t.Fatalf("%v: %s", err, out)
	}
	for _, f := range d.Findings {
		if slices.Contains([]string{"files.names", "files.sync"}, f.Check) && (f.Grade != gradeDanger || !strings.Contains(f.Found, "permission denied")) {
			t.Errorf("%+v", f)
		}
		if os.Getuid() == 0 && f.Check == "files.folder" && !strings.Contains(f.Found, "this command runs as user 65534") {
			t.Errorf("%+v", f)
		}
	}
}

func TestDoctorWithoutADeployment(t *testing.T) {
	t.Parallel()
	s := &site{t: t, env: map[string]string{"FENCELINE_DATA": t.TempDir()}}
	if r := s.run("doctor"); r.code != exitFailed || !strings.Contains(r.err, "no Fenceline runs on") || r.out != "" {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
}

// An error that quotes an address is shown without it, as it is or as Go quotes it.
func TestDoctorKeepsSecrets(t *testing.T) {
	t.Parallel()
	d := &doctor{conf: Config{DatabaseURL: "postgres://u:secret@h/d", RedisURL: `redis://:"secret"@h`}}
	err := fmt.Errorf("parse %q\n\tand %q, or %s", d.conf.RedisURL, d.conf.DatabaseURL, d.conf.DatabaseURL)
	if got, want := d.withoutSecrets(err), "parse REDIS_URL and DATABASE_URL, or DATABASE_URL"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestApproximately(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 1234 * time.Microsecond: "1.23ms", 23_400 * time.Microsecond: "23ms", 15 * time.Second: "15s", 20 * time.Second: "20s", 90 * time.Second: "1m30s",
		10 * time.Minute: "10m", time.Hour: "1h", 90 * time.Minute: "1h30m", 168 * time.Hour: "168h", time.Hour + 5*time.Second: "1h0m5s",
	} {
		if got := approximately(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 999_949: "999.9 kB", 999_960: "1.0 MB", 1 << 63: "9.2 EB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for version, want := range map[string]bool{"6.0.16": true, "5.9": true, "6.2.0": false, "7.0.15": false, "10.0.1": false, "": false, "x.y": false} {
		if got := before(version, 6, 2); got != want {
			t.Errorf("%s is before 6.2: %t", version, got)
		}
	}
}
