package notify

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// mailTimeout bounds each of three parts of sending a mail: to connect, to agree
// on TLS and sign in, to hand the mail over. Together they are less than a claim's lease.
const mailTimeout = 12 * time.Second

// Mailer sends mail by one SMTP server. It is safe for concurrent use: every
// mail has a connection of its own.
type Mailer struct {
	host, user, password string
	port                 int
	implicit             bool // TLS from the first byte
	policy               mail.TLSPolicy
	from                 *netmail.Address
	// trust is for tests, whose servers have certificates of their own; nil for those of the system.
	trust *tls.Config
}

// ParseMailer reads the address of an SMTP server and that of the sender:
//
//	smtp://user:secret@host:587           STARTTLS, or nothing is sent
//	smtps://user:secret@host:465          TLS from the beginning
//	smtp+insecure://user:secret@host:25   TLS if the server has it: for a server on the same machine or network
//
// from is an address, with a name or without. The errors never repeat smtp: it
// holds a password.
func ParseMailer(smtp, from string) (*Mailer, error) {
	bad := new(invalid.Error)
	m := &Mailer{}
	u, err := url.Parse(smtp)
	if err != nil || u.Hostname() == "" || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "" {
		bad.Add("SMTP_URL", "", "must be such as smtp://user:secret@mail.example.com:587, with %%-escapes for special characters")
		return nil, bad
	}
	m.host, m.user = u.Hostname(), u.User.Username()
	m.password, _ = u.User.Password()
	standard := "587"
	switch u.Scheme {
	case "smtp":
		m.policy = mail.TLSMandatory
	case "smtps":
		standard, m.implicit = "465", true
	case "smtp+insecure":
		standard, m.policy = "25", mail.TLSOpportunistic
	default:
		bad.Add("SMTP_URL", "", "must begin with smtp://, smtps:// or smtp+insecure://")
	}
	if u.Port() != "" {
		standard = u.Port()
	}
	if m.port, err = strconv.Atoi(standard); err != nil || m.port < 1 || m.port > 65535 {
		bad.Add("SMTP_URL", "", "must have a port from 1 to 65535, or none")
	}
	if m.from, err = netmail.ParseAddress(from); err != nil || strings.ContainsAny(from, "\r\n") {
		bad.Add("MAIL_FROM", from, "must be a mail address such as Exports <exports@example.com>; it is needed with SMTP_URL")
	}
	return m, bad.OrNil()
}

func (m *Mailer) client() (*mail.Client, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: m.host}
	if m.trust != nil {
		conf = m.trust.Clone()
		conf.ServerName = m.host
	}
	options := []mail.Option{mail.WithPort(m.port), mail.WithTimeout(mailTimeout), mail.WithTLSConfig(conf), mail.WithoutNoop()}
	if m.implicit {
		options = append(options, mail.WithSSL())
	} else {
		options = append(options, mail.WithTLSPolicy(m.policy))
	}
	if m.user != "" {
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(m.user), mail.WithPassword(m.password))
	}
	return mail.NewClient(m.host, options...)
}

func (m *Mailer) send(ctx context.Context, d storage.Parcel) result {
	msg, err := m.message(d)
	if err != nil {
		return result{err: err.Error(), permanent: true} // the same bytes would not do better
	}
	client, err := m.client()
	if err != nil {
		return result{err: "not sent: " + m.tell(err)}
	}
	err = client.DialAndSendWithContext(ctx, msg)
	if err == nil || msg.IsDelivered() { // the goodbye may fail after the server has taken it
		return result{ok: true, status: 250}
	}
	r := result{err: m.tell(err)}
	var refused *mail.SendError
	if errors.As(err, &refused) {
		r.status = refused.ErrorCode()
		r.permanent = refused.Reason == mail.ErrSMTPRcptTo && r.status >= 500 && !refused.IsTemp()
	}
	return r
}

// tell is the text of an error without the password, should the server repeat it.
func (m *Mailer) tell(err error) string {
	text := err.Error()
	if m.password != "" {
		text = strings.ReplaceAll(text, m.password, "…")
	}
	var unknown *net.DNSError
	if errors.As(err, &unknown) {
		return "the mail server " + m.host + " is not found: " + unknown.Err
	}
	return firstLine(text, maxError)
}

// message is the mail of a delivery: the same bytes whenever it is made.
func (m *Mailer) message(d storage.Parcel) (*mail.Msg, error) {
	w, err := wordsOf(d.Body)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(d.ID.String()))
	msg := mail.NewMsg(mail.WithNoDefaultUserAgent(), mail.WithBoundary("fenceline-"+hex.EncodeToString(sum[:12])))
	msg.FromMailAddress(m.from)
	if err := msg.To(d.Addresses...); err != nil {
		return nil, fmt.Errorf("address the mail: %w", err)
	}
	_, domain, _ := strings.Cut(m.from.Address, "@")
	msg.SetMessageIDWithValue(d.ID.String() + "@" + domain)
	msg.SetDateWithValue(d.CreatedAt.UTC())
	msg.Subject(w.subject)
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no out-of-office replies, please
	msg.SetBodyString(mail.TypeTextPlain, w.text())
	msg.AddAlternativeString(mail.TypeTextHTML, w.html())
	return msg, nil
}
