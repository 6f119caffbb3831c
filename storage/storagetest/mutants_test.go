package storagetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// edit replaces a piece of a function of the database, which must be in it exactly once.
type edit struct{ function, old, new string }

// mutant is the protocol with a guard taken out. A law must fail on it, and
// for the right reason.
//
// The protocol is guarded twice in many places: what a row lock or a comparison
// prevents, a trigger or a unique index would refuse. So there are two kinds of
// mutants. With one guard gone no wrong state is reached, but the one behind it
// has to step in, and a step answers with an error that no caller can make
// sense of: that is what such a mutant is caught by. With both gone the law itself is broken.
type mutant struct {
	name string
	// behind is the guard that still stands; empty when there is none.
	behind string
	edits  []edit
	sql    []string // run after the edits
	alter  func(*Deployment)
	law    string // that must fail
	says   string // in one of its failures
}

const (
	dropExportGuard  = "DROP TRIGGER guard ON fenceline.exports"
	dropAttemptGuard = "DROP TRIGGER guard ON fenceline.attempts"

	drawToken     = "token := nextval('fenceline.fence_tokens');"
	requireCommit = "PERFORM fenceline.require_read_committed();"
)

// Pieces of the functions, as they are in the migrations.
var (
	withoutRowLock = edit{"publish_attempt", "FROM fenceline.attempts WHERE id = aid FOR UPDATE;", "FROM fenceline.attempts WHERE id = aid;"}
	// published and superseded stay answers, so that only what a condemn leaves is ignored.
	ignoresState    = edit{"publish_attempt", "IF a.state <> 'sealed' THEN", "IF a.state IN ('published', 'superseded') THEN"}
	drawsNowhere    = edit{"begin_attempt", drawToken, ""}
	drawsFirst      = edit{"begin_attempt", requireCommit, requireCommit + " " + drawToken}
	trustsSequence  = edit{"begin_attempt", "IF token <= e.issued_token THEN", "IF false THEN"}
	comparesNothing = edit{"publish_attempt", "IF e.last_token >= a.token THEN", "IF false THEN"}
	movesAnyway     = edit{"publish_attempt", "WHERE id = e.id AND last_token < a.token;", "WHERE id = e.id;"}
	anyAttempt      = edit{"publish_attempt", "ELSIF j.attempt_id IS DISTINCT FROM aid OR j.state NOT IN ('running', 'cancelling', 'cancelled') THEN", "ELSIF false THEN"}
	anyJobState     = edit{"publish_attempt", "ELSIF j.state <> 'running' THEN", "ELSIF false THEN"}
	endsAnyJob      = edit{"end_attempt", "IF j.attempt_id IS DISTINCT FROM aid OR j.state NOT IN ('running', 'cancelling') THEN RETURN 'stale'; END IF;", ""}
	notifiesAlways  = edit{"publish_attempt", "    UPDATE fenceline.attempts t SET state = CASE publish_attempt.outcome", `
		INSERT INTO fenceline.outbox (topic, export_id, job_id, attempt_id) VALUES ('export.published', e.id, j.id, aid);
		UPDATE fenceline.attempts t SET state = CASE publish_attempt.outcome`}
	forgetsCondemned = edit{"hand_on_lost", "(a.state NOT IN ('running', 'sealed') OR a.heartbeat_at", "(a.heartbeat_at"}
)

var mutants = [...]mutant{
	{
		name: "publish does not lock the attempt's row", behind: "the trigger on attempts",
		edits: []edit{withoutRowLock},
		law:   "L1 a clean-up in the middle of a publish", says: "publish answered",
	},
	{
		name:  "publish does not lock the attempt's row, and no trigger on attempts",
		edits: []edit{withoutRowLock}, sql: []string{dropAttemptGuard},
		law: "L1 a clean-up in the middle of a publish", says: "no such object",
	},
	{
		name:  "the clean-up deletes without condemning",
		alter: sweepsUncondemned,
		law:   "L1 a publish after a clean-up", says: "no such object",
	},
	{
		name:  "the clean-up goes by age alone",
		alter: sweepsByAge,
		law:   "L1 a clean-up without mercy", says: "no such object",
	},
	{
		name: "publish ignores that a clean-up has condemned the attempt by its age", behind: "the trigger on attempts",
		edits: []edit{ignoresState},
		law:   "L1 a publish after a clean-up", says: "publish answered",
	},
	{
		name:  "publish ignores that a clean-up has condemned the attempt by its age, and no trigger on attempts",
		edits: []edit{ignoresState}, sql: []string{dropAttemptGuard},
		law: "L1 a publish after a clean-up", says: "no such object",
	},
	{
		name: "a bare nextval before the row lock", behind: "the comparison with issued_token",
		edits: []edit{drawsNowhere, drawsFirst},
		law:   "L2 tokens rise in the order of commits", says: "the token sequence is behind",
	},
	{
		name: "a bare nextval before the row lock, compared with nothing", behind: "the trigger on exports",
		edits: []edit{drawsNowhere, drawsFirst, trustsSequence},
		law:   "L2 tokens rise in the order of commits", says: "the token sequence is behind",
	},
	{
		name:  "a bare nextval before the row lock, compared with nothing, and no trigger on exports",
		edits: []edit{drawsNowhere, drawsFirst, trustsSequence}, sql: []string{dropExportGuard},
		law: "L2 tokens rise in the order of commits", says: "was given out after token",
	},
	{
		name:  "a snapshot that does not ask whose turn it is",
		alter: looksAnyway,
		law:   "L3 the older token looks last", says: "published data of version 1 after version 2",
	},
	{
		name: "publish as one statement", behind: "the unique index over what is published",
		sql: []string{dropExportGuard, publishAsOneStatement},
		law: "L2 two publish at once", says: "attempts_one_published",
	},
	{
		// The trigger on exports would refuse any such statement: it does not see the attempt published yet.
		name: "publish as one statement, and no unique index over what is published",
		sql:  []string{dropExportGuard, publishAsOneStatement, "DROP INDEX fenceline.attempts_one_published"},
		law:  "L2 two publish at once", says: "beside the current one",
	},
	{
		name: "publish compares no token", behind: "the trigger on exports",
		edits: []edit{comparesNothing, movesAnyway},
		law:   "L2 a lower token comes later", says: "publish answered",
	},
	{
		name:  "publish compares no token, and no trigger on exports",
		edits: []edit{comparesNothing, movesAnyway}, sql: []string{dropExportGuard},
		law: "L2 a lower token comes later", says: "publish answered <nil>",
	},
	{
		name: "no trigger on exports",
		sql:  []string{dropExportGuard},
		law:  "L2 the database itself refuses", says: "the pointer back",
	},
	{
		name: "no trigger on attempts",
		sql:  []string{dropAttemptGuard, "DROP INDEX fenceline.attempts_one_published"},
		law:  "L2 the database itself refuses", says: "published beside the current one",
	},
	{
		name:  "a stale attempt ends the job",
		edits: []edit{endsAnyJob},
		law:   "L6 a stale attempt gives up", says: "the job is",
	},
	{
		name:  "an attempt publishes that has lost its job",
		edits: []edit{anyAttempt},
		law:   "L4 a job is handed on while its attempt lives", says: "publish answered <nil>",
	},
	{
		name: "an attempt publishes whatever its job says", behind: "the unique index over the publications of a job",
		edits: []edit{anyAttempt, anyJobState},
		law:   "L4 a job is handed on while its attempt lives", says: "attempts_one_publication_per_job",
	},
	{
		name:  "an attempt publishes whatever its job says, and no unique index over the publications of a job",
		edits: []edit{anyAttempt, anyJobState}, sql: []string{"DROP INDEX fenceline.attempts_one_publication_per_job"},
		law: "L4 a job is handed on while its attempt lives", says: "2 attempts of the job were published",
	},
	{
		name:  "a refused publish notifies",
		edits: []edit{notifiesAlways},
		law:   "L8 only a publication notifies", says: "has 1 notices of its publication, want 0",
	},
	{
		name:  "the job of a condemned attempt is not handed on",
		edits: []edit{forgetsCondemned},
		law:   "L5 an attempt is lost at every step", says: "condemned: handed on",
	},
}

func TestMutantsAreCaught(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		name := m.name
		if m.behind != "" {
			name += ", but " + m.behind + " is left"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := m.lawOf(t)
			d := migrated(t)
			m.apply(t, &d)
			failures := record(t.Context(), l, d)
			t.Logf("%q", failures)
			if len(failures) == 0 {
				t.Fatalf("%s: it holds on this mutant and shows nothing", l.name)
			}
			if !slices.ContainsFunc(failures, func(f string) bool { return strings.Contains(f, m.says) }) {
				t.Errorf("%s fails, but for another reason than %q", l.name, m.says)
			}
		})
	}
}

func migrated(t *testing.T) Deployment {
	t.Helper()
	url := Database(t, nil)
	if _, err := storage.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return Deploy(t, url)
}

func (m mutant) lawOf(t *testing.T) law {
	t.Helper()
	i := slices.IndexFunc(laws[:], func(l law) bool { return l.name == m.law })
	if i < 0 {
		t.Fatalf("there is no law %q", m.law)
	}
	return laws[i]
}

// apply changes the mutant's own database and steps.
func (m mutant) apply(t *testing.T, d *Deployment) {
	t.Helper()
	conn := connect(t, d.URL)
	for _, e := range m.edits {
		source := value(t, conn, "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'fenceline'::regnamespace AND proname = '"+e.function+"'")
		if n := strings.Count(source, e.old); n != 1 {
			t.Fatalf("%s holds %q %d times: the function has changed, and so must the mutant", e.function, e.old, n)
		}
		do(t, conn, strings.Replace(source, e.old, e.new, 1))
	}
	for _, sql := range m.sql {
		do(t, conn, sql)
	}
	if m.alter != nil {
		m.alter(d)
	}
}

// sweepsUncondemned looks at who is silent, as the clean-up does, and deletes at once.
func sweepsUncondemned(d *Deployment) {
	d.Sweep = func(ctx context.Context, o storage.SweepOptions) error {
		return d.remove(ctx, "state IN ('running', 'sealed') AND heartbeat_at < clock_timestamp() - make_interval(secs => $1)", o.Grace)
	}
}

// sweepsByAge looks at nothing but how old things are.
func sweepsByAge(d *Deployment) {
	d.Sweep = func(ctx context.Context, o storage.SweepOptions) error {
		return d.remove(ctx, "started_at < clock_timestamp() - make_interval(secs => $1)", o.Grace)
	}
}

// remove deletes the files of attempts.
func (d Deployment) remove(ctx context.Context, where string, age time.Duration) error {
	pool, err := pgxpool.New(ctx, d.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	rows, err := pool.Query(ctx, "SELECT export_id, token, id FROM fenceline.attempts WHERE "+where, age.Seconds())
	if err != nil {
		return err
	}
	places, err := pgx.CollectRows(rows, pgx.RowToStructByPos[files.Place])
	for _, p := range places {
		if _, err := d.Files.Remove(ctx, p); err != nil {
			return err
		}
	}
	return err
}

// looksAnyway takes its snapshot without asking in it whether the token is still the newest.
func looksAnyway(d *Deployment) {
	d.Look = func(ctx context.Context, _ uuid.UUID, _ int64, query string) (value string, asOf time.Time, err error) {
		conn, err := pgx.Connect(ctx, d.URL)
		if err != nil {
			return "", asOf, err
		}
		defer conn.Close(ctx)
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err != nil {
			return "", asOf, err
		}
		err = tx.QueryRow(ctx, fmt.Sprintf("SELECT (%s), transaction_timestamp()", query)).Scan(&value, &asOf)
		return value, asOf, err
	}
}

// publishAsOneStatement decides, replaces and publishes in one statement: what it
// replaces, it has seen before it waited for the export's row.
const publishAsOneStatement = `
CREATE OR REPLACE FUNCTION fenceline.publish_attempt(aid uuid, OUT outcome text, OUT reason text, OUT fenced_by bigint) LANGUAGE plpgsql AS $$
BEGIN
	WITH a AS (
		SELECT * FROM fenceline.attempts WHERE id = aid AND state = 'sealed' FOR UPDATE
	), seen AS (
		SELECT e.id, e.attempt_id FROM fenceline.exports e JOIN a ON a.export_id = e.id
	), moved AS (
		UPDATE fenceline.exports e SET last_token = a.token, attempt_id = a.id, published_at = clock_timestamp()
		FROM a WHERE e.id = a.export_id AND e.last_token < a.token RETURNING e.id
	), replaced AS (
		UPDATE fenceline.attempts t SET state = 'superseded', replaced_at = clock_timestamp()
		FROM seen JOIN moved ON moved.id = seen.id WHERE t.id = seen.attempt_id RETURNING t.id
	), current AS (
		UPDATE fenceline.attempts t SET state = 'published', finished_at = clock_timestamp()
		FROM moved, (SELECT count(*) FROM replaced) AS before WHERE t.id = aid RETURNING t.export_id, t.job_id
	), told AS (
		INSERT INTO fenceline.outbox (topic, export_id, job_id, attempt_id)
		SELECT 'export.published', export_id, job_id, aid FROM current
	)
	SELECT 'published' INTO outcome FROM current;
	IF outcome IS NULL THEN outcome := (SELECT state FROM fenceline.attempts WHERE id = aid); RETURN; END IF;
	UPDATE fenceline.jobs SET state = 'done', finished_at = clock_timestamp()
		WHERE id = (SELECT job_id FROM fenceline.attempts WHERE id = aid);
END $$`
