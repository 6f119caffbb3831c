package protocol_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/protocol"
	"github.com/fenceline/fenceline/storage/storagetest"
)

func TestMain(m *testing.M) { os.Exit(storagetest.Main(m)) }

const (
	always = -time.Hour       // as a lease, grace or retention: has passed
	never  = 1000 * time.Hour // longer than a day, which may pass
	body   = "12345"
	object = "1-orders.csv"
)

// pair is the product and the reference, side by side. Positions in its lists are the
// reference's numbers; 0 is a row that neither knows.
type pair struct {
	t     *testing.T
	ctx   context.Context
	store *storage.Store
	conn  *pgx.Conn // for what no method does: the clock, the sequence, the restore
	dir   string
	local *files.Local

	ref      *protocol.World
	exports  []uuid.UUID
	jobs     []storage.Job
	attempts []storage.Begun
	planned  []step // to doom and to expire, as the last plan said
}

func migrate(ctx context.Context, url string) error {
	_, err := storage.Migrate(ctx, url)
	return err
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{t: t, ctx: t.Context(), dir: t.TempDir(), ref: protocol.New(0)}
	url := storagetest.Database(t, migrate)
	var err error
	p.store, err = storage.Open(p.ctx, url, storage.Options{})
	p.must(err)
	t.Cleanup(p.store.Close)
	p.conn, err = pgx.Connect(p.ctx, url)
	p.must(err)
	t.Cleanup(func() { _ = p.conn.Close(context.Background()) })
	p.exec(`CREATE SCHEMA saved; CREATE SEQUENCE saved.fence_tokens`)
	for _, table := range tables() {
		p.exec(fmt.Sprintf("CREATE TABLE saved.%s AS TABLE fenceline.%[1]s", table))
	}
	return p
}

// tables hold what the protocol decides over, in an order in which they can be filled.
func tables() []string {
	return []string{"exports", "jobs", "attempts", "files", "outbox", "epoch", "retention", "holds", "retention_changes"}
}

func (p *pair) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *pair) exec(sql string, args ...any) {
	p.t.Helper()
	if _, err := p.conn.Exec(p.ctx, sql, args...); err != nil {
		p.t.Fatalf("%s: %v", sql, err)
	}
}

// reset begins anew: empty tables past all guards, an empty folder, an empty reference.
func (p *pair) reset() {
	p.t.Helper()
	p.refill(func(table string) string { return "" }, "INSERT INTO fenceline.epoch DEFAULT VALUES; SELECT setval('fenceline.fence_tokens', 1, false)")
	if p.local != nil {
		p.must(p.local.Close())
	}
	installation, err := p.store.Installation(p.ctx)
	p.must(err)
	p.local, err = files.OpenLocal(filepath.Join(p.dir, uuid.NewString()), installation)
	p.must(err)
	p.ref.Reset(0)
	p.planned = nil
	p.exports, p.jobs, p.attempts = []uuid.UUID{uuid.New()}, []storage.Job{{ID: uuid.New()}}, []storage.Begun{{ID: uuid.New(), Token: 1}}
}

// refill replaces the tables in one transaction, as a restore does that asks no trigger.
func (p *pair) refill(fill func(table string) string, sequence string) {
	p.t.Helper()
	script := "BEGIN; SET LOCAL session_replication_role = replica;"
	for _, table := range tables() {
		script += "DELETE FROM fenceline." + table + ";" + fill(table)
	}
	p.exec(script + sequence + "; COMMIT")
}

// given are the columns of a table that the database does not work out itself.
func (p *pair) given(table string) (columns string) {
	p.t.Helper()
	p.must(p.conn.QueryRow(p.ctx, `SELECT string_agg(quote_ident(column_name), ', ') FROM information_schema.columns
		WHERE table_schema = 'fenceline' AND table_name = $1 AND is_generated = 'NEVER'`, table).Scan(&columns))
	return columns
}

func (p *pair) close() {
	if p.local != nil {
		_ = p.local.Close()
	}
}

func (p *pair) place(a protocol.AttemptID) files.Place {
	e, _ := p.ref.Place(a)
	return files.Place{Export: p.exports[e], Token: p.attempts[a].Token, Attempt: p.attempts[a].ID}
}

// The steps. Each is taken on both sides and answers what the reference wants to be
// told and what the product has told.

func (p *pair) addJob(s step) (want, got string) {
	n := storage.NewJob{
		Tenant: "acme", Kind: "report", Key: fmt.Sprint(s.key), Queue: "default", Payload: json.RawMessage(`{}`), PayloadVersion: 1,
		MaxAttempts: 2, MaxCrashes: 2, Timeout: time.Minute, RequestHash: []byte("hash"),
	}
	if s.later {
		n.Delay = time.Hour
	}
	var job storage.Job
	err := p.store.Transaction(p.ctx, func(tx storage.Tx) (err error) {
		job, _, err = p.store.InsertJob(p.ctx, tx, n)
		return err
	})
	before := p.ref.Exports()
	if p.ref.AddJob(s.key, n.MaxAttempts, n.MaxCrashes, s.later) == 0 {
		return "gone", told(err)
	}
	if p.ref.Exports() > before {
		p.exports = append(p.exports, job.ExportID)
	}
	p.jobs = append(p.jobs, job)
	return "ok", told(err)
}

func (p *pair) begin(s step) (want, got string) {
	a, out := p.ref.Begin(s.job, s.order)
	var order storage.LeaseOrder
	if s.order != 0 {
		order = storage.LeaseOrder{Name: "revision", Number: s.order}
	}
	b, err := p.store.BeginUnder(p.ctx, p.jobs[s.job].ID, "w", order)
	if a != 0 {
		p.attempts = append(p.attempts, b)
		row := p.ref.Attempt(a)
		return fmt.Sprintf("ok token %d number %d", row.Token, row.Number), fmt.Sprintf("%s token %d number %d", told(err), b.Token, b.Number)
	}
	return wants(out), told(err)
}

func (p *pair) heartbeat(s step) (want, got string) {
	alive := p.ref.Heartbeat(s.attempt, "write", s.rows)
	err := p.store.Heartbeat(p.ctx, p.attempts[s.attempt].ID, storage.Progress{Step: "write", Rows: s.rows})
	switch {
	case alive.Attempt == "":
		want = "not found"
	case alive.Attempt == protocol.AttemptPublished || alive.Attempt == protocol.AttemptSuperseded:
		want = "ok"
	case !alive.Attempt.Unfinished():
		want = wantsFound(string(alive.Attempt))
	case alive.Mine && (alive.Job == protocol.JobCancelling || alive.Job == protocol.JobCancelled):
		want = "cancelled"
	case !alive.Mine || alive.Job != protocol.JobRunning:
		want = "fenced handed_on by 0"
	default:
		want = "ok"
	}
	return want, told(err)
}

func (p *pair) snapshot(s step) (want, got string) {
	e, token := p.ref.Place(s.attempt)
	_, out := p.ref.Snapshot(e, token)
	sn, err := p.store.Snapshot(p.ctx, p.exports[e], token)
	if err == nil {
		sn.Close()
	}
	return wants(out), told(err)
}

func (p *pair) write(s step) (want, got string) {
	return wants(p.ref.CreateFile(s.attempt)), told(p.create(s.attempt))
}

func (p *pair) create(a protocol.AttemptID) error {
	w, err := p.local.Create(p.ctx, p.place(a), object)
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := w.Write([]byte(body)); err != nil {
		return err
	}
	_, err = w.Commit()
	return err
}

func (p *pair) seal(s step) (want, got string) {
	out := p.ref.Seal(s.attempt, s.rows, 1)
	return wantsFound(out.Is), told(p.store.Seal(p.ctx, p.attempts[s.attempt].ID, sealed(s)))
}

func sealed(s step) storage.Sealed {
	hash := sha256.Sum256([]byte(body))
	return storage.Sealed{Rows: s.rows, Files: []storage.File{{
		Name: "orders.csv", Object: object, Format: "csv", MediaType: "text/csv", Size: int64(len(body)), SHA256: hash[:], Rows: s.rows,
	}}}
}

// recovered is the answer of a recovery, by which one that adopts is told from others.
func recovered(r protocol.Recovered) string {
	text := fmt.Sprintf("%+v", r)
	if r.Adopted > 0 {
		text += " adopts"
	}
	return text
}

// manifest comes after the file.
func (p *pair) manifest(s step) (want, got string) {
	if !p.ref.Present(s.attempt) {
		return "", ""
	}
	want = wants(p.ref.CreateManifest(s.attempt, s.rows, 1))
	if want == "not found" {
		want = "not there"
	}
	return want, told(p.store.WriteManifest(p.ctx, p.local, p.attempts[s.attempt].ID, sealed(s)))
}

func (p *pair) publish(s step) (want, got string) {
	return wants(p.ref.Publish(s.attempt)), told(p.store.Publish(p.ctx, p.attempts[s.attempt].ID))
}

func (p *pair) end(s step) (want, got string) {
	out := p.ref.End(s.attempt, s.ending)
	how := storage.Ending{
		State: storage.AttemptState(s.ending.State), Reason: s.ending.Reason, Error: s.ending.Error, Counts: s.ending.Counts, Final: s.ending.Final,
	}
	if s.ending.Later {
		how.Retry = time.Hour
	}
	became, err := p.store.EndAttempt(p.ctx, p.attempts[s.attempt].ID, how)
	if err != nil {
		became = told(err)
	}
	return out.Is, became
}

func (p *pair) handOn(s step) (want, got string) {
	var wanted, gotten []string
	for _, l := range p.ref.HandOnLost(s.every) {
		wanted = append(wanted, fmt.Sprintf("job %d of attempt %d token %d: %s", l.Job, l.Attempt, l.Token, l.State))
	}
	lost, err := p.store.HandOnLost(p.ctx, passed(s.every), 100)
	if err != nil {
		return strings.Join(wanted, ", "), told(err)
	}
	names := p.names()
	for _, l := range lost {
		gotten = append(gotten, fmt.Sprintf("job %s of attempt %s token %d: %s", names[l.JobID], names[l.AttemptID], l.Token, l.JobState))
	}
	slices.Sort(wanted)
	slices.Sort(gotten)
	return strings.Join(wanted, ", "), strings.Join(gotten, ", ")
}

func passed(yes bool) time.Duration {
	if yes {
		return always
	}
	return time.Hour / 2 // what is silent has been so for an hour
}

func (p *pair) cancel(s step) (want, got string) {
	out := p.ref.Cancel(s.job)
	state, err := p.store.CancelJob(p.ctx, storage.Scope{All: true}, p.jobs[s.job].ID)
	if err != nil {
		return wants(out), told(err)
	}
	return out.Is, string(state)
}

func (p *pair) condemn(s step) (want, got string) {
	p.t.Helper()
	return p.unlessClosed(p.ref.Condemn(s.attempt, s.every)), p.taken("SELECT fenceline.condemn_attempts(ARRAY[$1::uuid], $2)", p.attempts[s.attempt].ID, passed(s.every).Seconds())
}

// taken is whether a function of the database answers something.
func (p *pair) taken(sql string, args ...any) string {
	tag, err := p.conn.Exec(p.ctx, sql, args...)
	if err != nil {
		return told(err)
	}
	return fmt.Sprint(tag.RowsAffected() == 1)
}

func (p *pair) sweep(s step) (want, got string) {
	p.t.Helper()
	take := p.takes(s)
	p.ageMark(s.news)
	p.lookSoon()
	done, refused := p.ref.Sweep(take)
	res, err := storage.NewSweep(p.store, p.local, p.options(take)).Run(p.ctx)
	if refused != "" || err != nil {
		return strings.ReplaceAll(refused, "_", " "), told(err)
	}
	return fmt.Sprintf("%+v", done), fmt.Sprintf("%+v", protocol.Swept{
		Planned: res.Planned, Condemned: res.Condemned, Deleted: res.Deleted, Probed: res.Probed, Expired: res.Expired,
		Files: done.Files, Unknown: len(res.Unknown), // the files are looked for after each step
	})
}

// takes is what a clean-up may take in this step.
func (p *pair) takes(s step) protocol.Take {
	return protocol.Take{Every: s.every, Lost: s.lost, Superseded: s.superseded && !p.ref.Stored(), News: s.news}
}

// options are a clean-up's, for what it may take.
func (p *pair) options(take protocol.Take) storage.SweepOptions {
	o := storage.SweepOptions{Grace: passed(take.Every), Quarantine: never, Superseded: never, Worker: "test"}
	if take.Superseded {
		o.Superseded = always
	}
	if take.Lost {
		o.Quarantine = always
	}
	return o
}

// ageMark lets the files have been told for the last time long ago, or just now.
func (p *pair) ageMark(long bool) {
	p.t.Helper()
	mark, err := p.local.ReadMark(p.ctx)
	p.must(err)
	if mark.At = time.Now(); long {
		mark.At = mark.At.Add(-never)
	}
	p.must(p.local.WriteMark(p.ctx, mark))
}

func (p *pair) save() {
	p.t.Helper()
	p.ref.Save()
	for _, table := range tables() {
		p.exec(fmt.Sprintf("DELETE FROM saved.%s; INSERT INTO saved.%[1]s SELECT * FROM fenceline.%[1]s", table))
	}
	p.exec("SELECT setval('saved.fence_tokens', last_value, is_called) FROM fenceline.fence_tokens")
}

// restore is a restore, if there is something to restore. The database notices it by
// what it remembers of itself.
func (p *pair) restore(step) (want, got string) {
	p.t.Helper()
	if !p.ref.Stored() {
		return "", ""
	}
	p.ref.Restore()
	p.refill(func(table string) string {
		return fmt.Sprintf("INSERT INTO fenceline.%s (%s) OVERRIDING SYSTEM VALUE SELECT %[2]s FROM saved.%[1]s;", table, p.given(table))
	}, "UPDATE fenceline.epoch SET fingerprint = '1 1 1'; SELECT setval('fenceline.fence_tokens', last_value, is_called) FROM saved.fence_tokens")
	return "done", "done"
}

func (p *pair) recover(s step) (want, got string) {
	p.t.Helper()
	r := p.ref.Recover(s.lost, s.adopt)
	sum, err := storage.Recover(p.ctx, p.store, p.local, storage.RecoverOptions{FilesLost: s.lost, Adopt: s.adopt})
	if err != nil && !errors.Is(err, storage.ErrFilesLost) {
		return recovered(r), told(err)
	}
	return recovered(r), recovered(protocol.Recovered{
		Done: sum.Done, Condemned: int(sum.Condemned), Pointers: int(sum.Pointers), Lost: int(sum.Lost), Unknown: int(sum.Unknown),
		Adopted: int(sum.Adopted), Token: sum.Token,
	})
}
