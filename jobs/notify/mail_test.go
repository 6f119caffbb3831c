package notify

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// letter is a mail that a server took.
type letter struct {
	from string
	to   []string
	raw  []byte
	tls  bool
	user string
}

// postOffice is an SMTP server.
type postOffice struct {
	address string
	trust   *tls.Config
	conf    *tls.Config

	mu      sync.Mutex
	letters []letter
	conns   int
	fail    func(n int, l letter) error // after letter n, counted from 1, is taken; errCut cuts the connection
	refuse  map[string]error            // by recipient
}

var errCut = errors.New("cut")

func newPostOffice(t *testing.T, change func(*postOffice, *smtp.Server)) *postOffice {
	t.Helper()
	o := &postOffice{refuse: map[string]error{}}
	o.conf, o.trust = certificates(t)
	s := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		o.mu.Lock()
		o.conns++
		o.mu.Unlock()
		return &session{office: o, conn: c}, nil
	}))
	s.Domain, s.TLSConfig, s.ErrorLog = "mail.test", o.conf, quietLog{}
	if change != nil {
		change(o, s)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.address = l.Addr().String()
	if o.conf == nil { // the test took it: TLS from the first byte
		l = tls.NewListener(l, s.TLSConfig)
	}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return o
}

type quietLog struct{}

func (quietLog) Printf(string, ...any) {}
func (quietLog) Println(...any)        {}

// certificates are a server's, and what a client has to trust.
func certificates(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, &tls.Config{RootCAs: pool}
}

// session is one connection to a post office.
type session struct {
	office *postOffice
	conn   *smtp.Conn
	letter letter
	user   string
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "fenceline@example.com" || password != "p@ss/w:rd" {
			return &smtp.SMTPError{Code: 535, Message: "no: " + password}
		}
		s.user = user
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error { s.letter.from = from; return nil }

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.letter.to = append(s.letter.to, to)
	return s.office.refuse[to]
}

func (s *session) Data(r io.Reader) (err error) {
	if s.letter.raw, err = io.ReadAll(r); err != nil {
		return err
	}
	_, s.letter.tls = s.conn.TLSConnectionState()
	s.letter.user = s.user
	s.office.mu.Lock()
	s.office.letters = append(s.office.letters, s.letter)
	n := len(s.office.letters)
	s.office.mu.Unlock()
	if s.office.fail == nil {
		return nil
	}
	err = s.office.fail(n, s.letter)
	if errors.Is(err, errCut) {
		_ = s.conn.Close()
	}
	return err
}

func (s *session) Reset()        { s.letter = letter{} }
func (s *session) Logout() error { return nil }

func (o *postOffice) got() []letter {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.letters)
}

// mailer is a client of the office.
func (o *postOffice) mailer(t *testing.T, scheme, user string) *Mailer {
	t.Helper()
	m, err := ParseMailer(scheme+"://"+user+o.address, "Exports für alle <exports@example.com>")
	if err != nil {
		t.Fatal(err)
	}
	m.trust = o.trust
	return m
}

const signedIn = "fenceline%40example.com:p%40ss%2Fw%3Ard@"

func (w *world) office(addresses ...string) storage.Target {
	w.t.Helper()
	t, _, err := w.targets.Add(w.ctx, Request{Tenant: "acme", Name: "office", Kind: "mail", Addresses: addresses, Topics: []string{"*"}})
	w.must(err)
	return t
}

func TestMailIsDelivered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := newPostOffice(t, nil)
	w.office("ann@example.com", "bob@example.com")
	w.deliver(func(c *Config) { c.Mailer = o.mailer(t, "smtp", signedIn) })
	job, _ := w.published("acme", "orders", "Bestellungen „März“ <b>\r\nBcc: eve@example.com")
	d := w.becomes(storage.DeliveryDelivered)
	letters := o.got()
	if len(letters) != 1 {
		t.Fatalf("%d letters", len(letters))
	}
	l := letters[0]
	if !l.tls || l.user != "fenceline@example.com" || l.from != "exports@example.com" || !slices.Equal(l.to, []string{"ann@example.com", "bob@example.com"}) {
		t.Errorf("sent with TLS %t, as %q, from %q to %q", l.tls, l.user, l.from, l.to)
	}
	m := parseLetter(t, l.raw)
	if want := "Published: Bestellungen „März“ <b> Bcc: eve@example.com"; strings.Join(strings.Fields(m.subject), " ") != want {
		t.Errorf("the subject is %q, want %q", m.subject, want)
	}
	if m.Get("Bcc") != "" || m.Get("Auto-Submitted") != "auto-generated" || m.Get("Message-Id") != "<"+d.ID.String()+"@example.com>" {
		t.Errorf("the header is %v", m.Header)
	}
	if from, err := netmail.ParseAddress(m.Get("From")); err != nil || from.Name != "Exports für alle" {
		t.Errorf("from %v, %v", from, err)
	}
	if date, err := m.Header.Date(); err != nil || date.Unix() != d.CreatedAt.Unix() {
		t.Errorf("dated %s, %v", date, err)
	}
	for _, b := range l.raw {
		if b > '~' {
			t.Fatalf("the letter is not ASCII: %s", l.raw)
		}
	}
	link := "https://exports.example.com/exports/" + job.ExportID.String()
	for _, want := range []string{"Bestellungen „März“ <b>", "was published", "orders.csv: 56.3 kB, 1\u00a0204 rows", link, "UTC"} {
		if !strings.Contains(m.text, want) {
			t.Errorf("no %q in\n%s", want, m.text)
		}
	}
	if !strings.Contains(m.html, "„März“ &lt;b&gt;") || strings.Contains(m.html, "<b>") || !strings.Contains(m.html, `href="`+link+`"`) {
		t.Errorf("the HTML is\n%s", m.html)
	}
}

// read is a letter, taken apart.
type read struct {
	netmail.Header
	subject, text, html string
}

func parseLetter(t *testing.T, raw []byte) (r read) {
	t.Helper()
	m, err := netmail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("%v in\n%s", err, raw)
	}
	r.Header = m.Header
	if r.subject, err = new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject")); err != nil {
		t.Fatal(err)
	}
	media, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || media != "multipart/alternative" {
		t.Fatalf("the letter is %s: %v", media, err)
	}
	parts := multipart.NewReader(m.Body, params["boundary"])
	for {
		p, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return r
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(quotedprintable.NewReader(p))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(p.Header.Get("Content-Type"), "text/html") {
			r.html = string(text)
		} else {
			r.text = string(text)
		}
	}
}

// A server that takes a letter and dies before it says so gets it twice: the
// same bytes, by which it can be recognised.
func TestALetterThatIsSentTwiceIsTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := newPostOffice(t, func(o *postOffice, _ *smtp.Server) {
		o.fail = func(n int, _ letter) error {
			if n == 1 {
				return errCut
			}
			return nil
		}
	})
	w.office("ann@example.com")
	w.deliver(func(c *Config) { c.Mailer = o.mailer(t, "smtp", "") })
	w.failed("acme", "stock", "Stock", "no such table")
	if d := w.tried(1); d.State != storage.DeliveryPending {
		t.Errorf("recorded: %+v", d)
	}
	w.lapse()
	w.becomes(storage.DeliveryDelivered)
	letters := o.got()
	if len(letters) != 2 {
		t.Fatalf("%d letters, want 2", len(letters))
	}
	if !bytes.Equal(letters[0].raw, letters[1].raw) {
		t.Errorf("they differ:\n%s\n%s", letters[0].raw, letters[1].raw)
	}
	if m := parseLetter(t, letters[0].raw); !strings.Contains(m.text, "Stock failed") || !strings.Contains(m.text, "Why: no such table") || !strings.Contains(m.text, "/jobs/") {
		t.Errorf("it says\n%s", m.text)
	}
}

func TestMailThatCannotBeSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := newPostOffice(t, func(o *postOffice, _ *smtp.Server) {
		o.refuse["gone@example.com"] = &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user"}
		o.refuse["full@example.com"] = &smtp.SMTPError{Code: 452, EnhancedCode: smtp.EnhancedCode{4, 2, 2}, Message: "mailbox full"}
	})
	plain := newPostOffice(t, func(_ *postOffice, s *smtp.Server) { s.TLSConfig, s.AllowInsecureAuth = nil, true })
	strangers := newPostOffice(t, nil)
	untrusted := strangers.mailer(t, "smtp", "")
	untrusted.trust = nil
	for _, c := range []struct {
		what    string
		mailer  *Mailer
		to      string
		says    string
		forever bool
	}{
		{"no such user", o.mailer(t, "smtp", ""), "gone@example.com", "no such user", true},
		{"mailbox full", o.mailer(t, "smtp", ""), "full@example.com", "mailbox full", false},
		{"wrong password", o.mailer(t, "smtp", "fenceline%40example.com:wrong-password@"), "ann@example.com", "535", false},
		{"no TLS", plain.mailer(t, "smtp", ""), "ann@example.com", "STARTTLS", false},
		{"password without TLS", plain.mailer(t, "smtp+insecure", signedIn), "ann@example.com", "auth", false},
		{"a certificate of nobody", untrusted, "ann@example.com", "certificate", false},
	} {
		r := c.mailer.send(w.ctx, storage.Parcel{ID: uuid.New(), Body: testBody(t), Addresses: []string{c.to}})
		if r.ok || r.permanent != c.forever || !strings.Contains(r.err, c.says) || strings.Contains(r.err, "wrong-password") || strings.Contains(r.err, "p@ss/w:rd") {
			t.Errorf("%s: %+v", c.what, r)
		}
	}
	if n := len(o.got()) + len(plain.got()) + len(strangers.got()); n != 0 {
		t.Errorf("%d letters were sent", n)
	}
	if r := plain.mailer(t, "smtp+insecure", "").send(w.ctx, storage.Parcel{ID: uuid.New(), Body: testBody(t), Addresses: []string{"ann@example.com"}}); !r.ok {
		t.Errorf("without TLS, allowed: %+v", r)
	}
}

func testBody(t *testing.T) string {
	t.Helper()
	body, err := testEvent(storage.Target{Tenant: "acme", Name: "office"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestMailWithTLSFromTheBeginning(t *testing.T) {
	t.Parallel()
	o := newPostOffice(t, func(o *postOffice, _ *smtp.Server) { o.conf = nil })
	r := o.mailer(t, "smtps", signedIn).send(t.Context(), storage.Parcel{ID: uuid.New(), Body: testBody(t), Addresses: []string{"ann@example.com"}})
	if letters := o.got(); !r.ok || len(letters) != 1 || letters[0].user == "" {
		t.Errorf("%+v, %d letters", r, len(letters))
	}
}

// Without a mail server mail waits for a deliverer that has one.
func TestMailWaitsForAMailer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newReceiver(t, nil)
	w.office("ann@example.com")
	w.hook("acme", "shop", r.URL, "*")
	stop := w.deliver()
	w.custom("acme", "custom.stock.low", map[string]any{"article": "A-1", "left": 3})
	w.until("the webhook is told", func() bool {
		c, err := w.store.CountOutbox(w.ctx)
		w.must(err)
		return len(r.calls()) == 1 && c.Pending == 1
	})
	stop()
	o := newPostOffice(t, nil)
	w.deliver(func(c *Config) { c.Mailer = o.mailer(t, "smtp", "") })
	w.until("the letter is sent", func() bool { return len(o.got()) == 1 })
	if m := parseLetter(t, o.got()[0].raw); m.subject != "Notice: custom.stock.low" || !strings.Contains(m.text, `{"article":"A-1","left":3}`) {
		t.Errorf("%q says\n%s", m.subject, m.text)
	}
}

func TestMailSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ smtp, from, field string }{
		{"smtp://user:hunter2@host", "a@example.com", ""}, {"smtps://host:465/", "A <a@example.com>", ""}, {"smtp+insecure://127.0.0.1", "a@example.com", ""},
		{"http://user:hunter2@host", "a@example.com", "SMTP_URL"}, {"smtp://user:hunter2@host:0", "a@example.com", "SMTP_URL"},
		{"smtp://user:hunter2@", "a@example.com", "SMTP_URL"}, {"smtp://user:hunter2@host?x=1", "a@example.com", "SMTP_URL"}, {"user:hunter2@host", "a@example.com", "SMTP_URL"},
		{"smtp://user:hun%ter2@host", "a@example.com", "SMTP_URL"}, {"smtp://host", "", "MAIL_FROM"}, {"smtp://host", "a", "MAIL_FROM"},
		{"smtp://host", "A <a@example.com>\r\nBcc: b@example.com", "MAIL_FROM"},
	} {
		_, err := ParseMailer(c.smtp, c.from)
		if (err == nil) != (c.field == "") || err != nil && (!strings.HasPrefix(err.Error(), c.field) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s from %q: %v", c.smtp, c.from, err)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 bytes", 999: "999 bytes", 1000: "1.0 kB", 56300: "56.3 kB", 999_949: "999.9 kB", 999_950: "1.0 MB", 5_400_000_000: "5.4 GB", 7e15: "7000.0 TB"} {
		if got := size(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "", 1: ", 1 row", 12: ", 12 rows", 1204: ", 1\u00a0204 rows", 1234567: ", 1\u00a0234\u00a0567 rows"} {
		if got := rowsOf(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	for _, e := range []Event{{Type: "export.published"}, {Type: "job.failed"}, {Type: "something.new"}, {Type: "test"}} { // the least that there can be
		body, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if w, err := wordsOf(string(body)); err != nil || w.subject == "" || w.text() == "" {
			t.Errorf("%s: %+v, %v", e.Type, w, err)
		}
	}
	long := strings.Repeat("ä", 400)
	if got := firstLine(long, 101); got != strings.Repeat("ä", 50)+"…" {
		t.Errorf("cut to %q", got)
	}
	if _, err := wordsOf("{"); err == nil {
		t.Error("words of nothing")
	}
}
