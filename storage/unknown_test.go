package storage_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// cutter is a proxy before PostgreSQL. Armed, it lets a message that contains
// its word through, waits for the answer, drops it and cuts the connection: the
// server has committed and the client cannot know.
type cutter struct {
	listener net.Listener
	server   string
	word     []byte
	armed    atomic.Int32 // how many answers are still to be dropped
}

func newCutter(t testing.TB, server, word string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: l, server: server, word: []byte(word)}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go c.pass(client)
		}
	}()
	return c
}

func (c *cutter) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.server)
	if err != nil {
		return
	}
	defer server.Close()
	var drop atomic.Bool
	go func() {
		defer server.Close()
		relay(client, server, func(message []byte) bool {
			if bytes.Contains(message, c.word) && c.armed.Add(-1) >= 0 {
				drop.Store(true)
			}
			return true
		})
	}()
	relay(server, client, func([]byte) bool { return !drop.Load() })
}

// relay copies until either side ends or pass says no.
func relay(from, to net.Conn, pass func([]byte) bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || !pass(buf[:n]) {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// A reply that is lost after COMMIT: every deciding step is asked again and
// answers what was decided.
func TestLostRepliesAreResolved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u, err := url.Parse(w.url)
	w.must(err)
	proxy := newCutter(t, u.Host, "fenceline.")
	u.Host = proxy.listener.Addr().String()
	far := openStore(t, pooled(u.String())) // there a statement and its text are one message
	ctx, cancel := context.WithTimeout(w.ctx, 30*time.Second)
	defer cancel()

	job := w.insert(newJob("sales"))
	lose := func(what string) {
		t.Helper()
		if left := proxy.armed.Swap(2); left > 0 { // twice, so that the second question's answer is lost too
			t.Errorf("before %s no reply was lost: the test shows nothing", what)
		}
	}
	lose("begin")
	b, err := far.BeginAttempt(ctx, job.ID, "w-1")
	w.must(err)
	if got := w.jobState(job.ID, storage.JobRunning); got.Attempts != 1 || *got.AttemptID != b.ID {
		t.Errorf("%d attempts began", got.Attempts)
	}
	lose("seal")
	w.must(far.Seal(ctx, b.ID, sealing("orders.csv")))
	lose("publish")
	w.must(far.Publish(ctx, b.ID))
	w.jobState(job.ID, storage.JobDone)
	w.pointer(job.ExportID, b.Token)

	failing := w.insert(newJob("failing"))
	b = w.begin(failing)
	lose("end")
	became, err := far.EndAttempt(ctx, b.ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "x", Counts: true})
	w.must(err)
	if proxy.armed.Load() > 0 {
		t.Error("at the end no reply was lost: the test shows nothing")
	}
	if got := w.jobState(failing.ID, storage.JobQueued); got.Failures != 1 || became != "failed" { // the attempt's own verdict
		t.Errorf("%d failures were counted, answer %s", got.Failures, became)
	}
}

// While PostgreSQL gives no answer nobody may conclude anything.
func TestNoAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.seal(w.begin(w.insert(newJob("sales"))))
	tx, err := w.conn().Begin(w.ctx)
	w.must(err)
	defer func() { _ = tx.Rollback(w.ctx) }()
	_, err = tx.Exec(w.ctx, "SELECT FROM fenceline.attempts WHERE id = $1 FOR UPDATE", b.ID)
	w.must(err)
	ctx, cancel := context.WithTimeout(w.ctx, 300*time.Millisecond)
	defer cancel()
	if err := w.store.Publish(ctx, b.ID); !errors.Is(err, storage.ErrUnknownOutcome) {
		t.Fatalf("got %v", err)
	}
	w.must(tx.Rollback(w.ctx))
	w.must(w.store.Publish(w.ctx, b.ID))
}

// pooled is a URL as for pgbouncer in transaction mode: no prepared statements.
func pooled(url string) string {
	sep := "?"
	if strings.Contains(url, "?") {
		sep = "&"
	}
	return url + sep + "default_query_exec_mode=exec"
}

// Every statement must work without prepared statements, where PostgreSQL does
// not tell the types of parameters beforehand.
func TestEveryStatementWorksBehindAPooler(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store = openStore(t, pooled(w.url))
	id, err := w.store.Installation(w.ctx)
	w.must(err)
	local, err := files.OpenLocal(t.TempDir(), id)
	w.must(err)
	defer local.Close()
	s := &swept{w, local}

	job, b := s.attempt("sales")
	w.must(w.store.Heartbeat(w.ctx, b.ID, storage.Progress{Step: "write", Rows: 1, Expected: new(int64(2)), Bytes: 3}))
	sealed := sealing("orders.csv")
	sealed.Warnings = map[string]int{"formula": 2}
	sealed.DataAsOf = time.Now()
	w.must(w.store.Seal(w.ctx, b.ID, sealed))
	w.must(w.store.Publish(w.ctx, b.ID))
	if a := w.attemptState(b.ID, storage.AttemptPublished); string(a.Warnings) != `{"formula": 2}` || a.RowsExpected == nil {
		t.Errorf("warnings %s", a.Warnings)
	}
	if list, err := w.store.Files(w.ctx, b.ID); err != nil || len(list) != 1 || len(list[0].SHA256) != 32 {
		t.Errorf("files %+v, %v", list, err)
	}
	waiting := w.insert(newJob("sales"))
	bells, err := w.store.TakeBells(w.ctx, 10, time.Hour)
	w.must(err)
	w.must(w.store.RingAgain(w.ctx, bells, 0))
	w.must(w.store.NewGeneration(w.ctx, bells[0]))
	_, err = w.store.RingAll(w.ctx)
	w.must(err)
	_, err = w.store.Claimable(w.ctx, waiting.ID)
	w.must(err)
	w.must(w.store.WaitForLease(w.ctx, waiting, time.Hour, time.Hour))
	w.must(w.store.WakeWaiting(w.ctx, job.ExportID, 0))
	w.begin(waiting)
	w.handOn(1)
	_, err = w.store.EndAttempt(w.ctx, w.begin(waiting).ID, storage.Ending{State: storage.AttemptFailed, Reason: "error", Error: "x", Counts: true})
	w.must(err)
	s.run(everyAge)
	s.run(everyAge)
	_, err = w.store.Overview(w.ctx, everything)
	w.must(err)
	_, err = w.store.Exports(w.ctx, storage.Scope{Tenant: "acme"}, storage.ExportFilter{Search: "s", Kind: "report"})
	w.must(err)
	everySchedule(w, job.ID)
	token, secret, err := w.store.NewToken(w.ctx, "ci", "")
	w.must(err)
	_, err = w.store.TokenBySecret(w.ctx, secret)
	w.must(err)
	_, err = w.store.Tokens(w.ctx)
	w.must(errors.Join(err, w.store.RevokeToken(w.ctx, everything, token.ID), w.store.PruneSecrets(w.ctx)))
	everyPerson(w)
}

func everyPerson(w *world) {
	w.t.Helper()
	link, err := w.store.NewSigninLink(w.ctx, uuid.Nil, time.Minute)
	w.must(err)
	_, err = w.store.LinkUser(w.ctx, link)
	w.must(err)
	ada, session, err := w.store.UseSigninLink(w.ctx, link, "Ada", storage.Visitor{})
	w.must(err)
	_, err = w.store.SessionUser(w.ctx, session)
	w.must(err)
	bob, err := w.store.AddUser(w.ctx, storage.NewUser{Name: "Bob", Tenant: "acme", Role: storage.RoleViewer, Password: "$argon2id$x"})
	w.must(err)
	_, hash, err := w.store.PasswordOf(w.ctx, "Bob")
	w.must(errors.Join(err, w.store.Rehash(w.ctx, bob.ID, hash, "$argon2id$y")))
	_, _, err = w.store.BeginSession(w.ctx, bob.ID, storage.ViaPassword, "$argon2id$y", storage.Visitor{})
	w.must(err)
	w.change(bob, storage.UserChange{Role: new(storage.RoleOperator), Tenant: new("globex"), Disabled: new(true), Password: new("$argon2id$z")})
	_, _, err = w.store.Users(w.ctx, storage.Scope{Tenant: "globex"}, "A", 10)
	w.must(err)
	list, err := w.store.Sessions(w.ctx, ada.ID, session)
	w.must(errors.Join(err, w.store.EndSessionOf(w.ctx, ada.ID, list[0].ID)))
	_, err = w.store.EndSessionsOf(w.ctx, ada.ID, "")
	w.must(err)
	_, _, err = w.store.Tenants(w.ctx, everything, "", 10)
	w.must(err)
	_, _, err = w.store.TokenPage(w.ctx, storage.Scope{Tenant: "acme"}, uuid.New(), 10)
	w.must(errors.Join(err, w.store.RemoveUser(w.ctx, everything, bob.ID)))
}
