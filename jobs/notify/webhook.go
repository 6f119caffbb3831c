package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fenceline/fenceline/jobs/secret"
	"github.com/fenceline/fenceline/storage"
)

const (
	maxAnswer  = 1 << 10          // of what a target answers, kept in bytes
	answerIn   = 2 * time.Second  // for what it says besides its status, which alone counts
	keylessFor = 30 * time.Second // until another deliverer, or this one with another key, may try
)

// webhook sends deliveries by HTTP.
type webhook struct {
	guard  *Guard
	keys   *secret.Keyring
	client *http.Client
}

func newWebhook(g *Guard, keys *secret.Keyring, tlsConfig *tls.Config) *webhook {
	return &webhook{guard: g, keys: keys, client: g.client(tlsConfig)}
}

func (w *webhook) send(ctx context.Context, d storage.Parcel) result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := w.request(ctx, d)
	if err != nil {
		var key *secret.KeyError
		if errors.As(err, &key) { // ours to mend, and another deliverer may have the key
			return result{err: err.Error(), blameless: true, after: keylessFor}
		}
		return result{err: err.Error()}
	}
	res, err := w.client.Do(req)
	if err != nil {
		return result{err: withoutURL(err)}
	}
	defer res.Body.Close()
	defer time.AfterFunc(answerIn, cancel).Stop()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer)) // what it says besides its status is for people only
	r := result{status: res.StatusCode, answer: printable(strings.ToValidUTF8(string(answer), " "))}
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		r.ok = true
	case res.StatusCode >= 300 && res.StatusCode < 400:
		r.err = fmt.Sprintf("answered %d: redirects are not followed; give the target the address that it leads to", res.StatusCode)
	case res.StatusCode == http.StatusGone:
		r.err, r.gone = "answered 410 Gone", true
	default:
		r.err = fmt.Sprintf("answered %d %s", res.StatusCode, http.StatusText(res.StatusCode))
	}
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable {
		r.after = retryAfter(res.Header, d.Now)
	}
	return r
}

// request makes the signed request; its time is the database's.
func (w *webhook) request(ctx context.Context, d storage.Parcel) (*http.Request, error) {
	if err := w.guard.CheckURL(d.URL); err != nil { // what was allowed once may be allowed no more
		return nil, fmt.Errorf("not sent: %w", err)
	}
	secrets := make([]string, len(d.Secrets))
	for i, kept := range d.Secrets {
		var err error
		if secrets[i], err = openSecret(w.keys, d.URL, kept); err != nil {
			return nil, fmt.Errorf("not sent: open the secret: %w", err)
		}
	}
	signature, err := signAll(secrets, d.ID.String(), d.Now, []byte(d.Body))
	if err != nil {
		return nil, fmt.Errorf("not sent: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL, strings.NewReader(d.Body))
	if err != nil {
		return nil, errors.New("not sent: " + withoutURL(err))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Fenceline")
	req.Header.Set(HeaderID, d.ID.String())
	req.Header.Set(HeaderTimestamp, strconv.FormatInt(d.Now.Unix(), 10))
	req.Header.Set(HeaderSignature, signature)
	return req, nil
}

// withoutURL is the text of an error without the address, whose path may be as good as a secret.
func withoutURL(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		if u.Timeout() {
			return fmt.Sprintf("no answer within %s", sendTimeout)
		}
		err = u.Err
	}
	return firstLine(err.Error(), maxError)
}
