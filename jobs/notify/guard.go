package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fenceline/fenceline/jobs/invalid"
)

// Guard says which addresses webhooks may reach: those of the public internet
// over https, and what an operator has allowed besides. It is safe for
// concurrent use; the zero value allows nothing besides.
type Guard struct {
	nets  []netip.Prefix
	hosts []string
}

// NewGuard allows host names and networks (such as 10.1.0.0/16, or a single
// address) that may be internal, and may be reached over http.
func NewGuard(allow []string) (*Guard, error) {
	g, refused := &Guard{}, new(invalid.Error)
	for _, entry := range allow {
		if prefix, err := netip.ParsePrefix(entry); err == nil {
			g.nets = append(g.nets, prefix.Masked())
		} else if addr, err := netip.ParseAddr(entry); err == nil && addr.Zone() == "" {
			g.nets = append(g.nets, netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
		} else if host := plainHost(entry); hostName.MatchString(host) && !endsInNumber.MatchString(host) {
			g.hosts = append(g.hosts, host)
		} else {
			refused.Add("WEBHOOK_ALLOW", entry, "must be host names or networks such as hooks.internal,10.1.0.0/16")
		}
	}
	return g, refused.OrNil()
}

var (
	hostName = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$`)
	// What ends in a number is an IPv4 address in one of its old spellings (decimal, octal, hexadecimal, short), or nothing.
	endsInNumber = regexp.MustCompile(`(^|\.)([0-9]+|0x[0-9a-f]*)$`)
)

// plainHost is a host name in lower case and without the dot of the root.
func plainHost(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// maxURL bounds the address of a webhook, in bytes.
const maxURL = 2000

// CheckURL refuses, as an invalid.Error, what cannot be the address of a
// webhook. That it passes does not mean that it may be reached: a name is only
// known when it is dialled.
func (g *Guard) CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "" || len(text) > maxURL:
		return invalid.New("url", withoutUser(u, err), "must be a URL such as https://example.com/hooks, of at most %d bytes", maxURL)
	case u.User != nil:
		return invalid.New("url", withoutUser(u, nil), "must not hold a name or password: webhooks are signed; give what else is needed in the path")
	case u.Fragment != "":
		return invalid.New("url", text, "must not hold a #fragment: it would not be sent")
	case u.Scheme != "https" && u.Scheme != "http":
		return invalid.New("url", text, "must begin with https://")
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return invalid.New("url", text, "must have a port from 1 to 65535, or none")
		}
	}
	return g.checkHost(u, text)
}

func (g *Guard) checkHost(u *url.URL, text string) error {
	host := plainHost(u.Hostname())
	if addr, err := netip.ParseAddr(host); err == nil {
		if err := g.check("", addr); err != nil {
			return invalid.New("url", text, "%s", err)
		}
		if u.Scheme == "http" && !g.allows(host, addr) {
			return invalid.New("url", text, "must begin with https://; WEBHOOK_ALLOW names what may be reached over http")
		}
		return nil
	}
	switch {
	case !hostName.MatchString(host) || len(host) > 253:
		return invalid.New("url", text, "must have a host name of letters, digits, - and dots (other scripts as xn--…)")
	case endsInNumber.MatchString(host):
		return invalid.New("url", text, "must have a host name, or an IP address in its usual form")
	case u.Scheme == "http" && !slices.Contains(g.hosts, host):
		return invalid.New("url", text, "must begin with https://; WEBHOOK_ALLOW names what may be reached over http")
	case (host == "localhost" || strings.HasSuffix(host, ".localhost")) && !slices.Contains(g.hosts, host):
		return invalid.New("url", text, "is this machine; WEBHOOK_ALLOW names what may be internal")
	}
	return nil
}

// withoutUser repeats a refused address without what may be a password.
func withoutUser(u *url.URL, err error) string {
	if err != nil || u == nil {
		return ""
	}
	return u.Redacted()
}

func (g *Guard) allows(host string, addr netip.Addr) bool {
	return slices.Contains(g.hosts, host) || slices.ContainsFunc(g.nets, func(p netip.Prefix) bool { return p.Contains(addr.Unmap()) })
}

// ErrInternal means that a webhook was not sent because its address is not one of the public internet.
var ErrInternal = errors.New("the address is internal")

// check refuses an address that is not public, unless it or the host is allowed.
func (g *Guard) check(host string, addr netip.Addr) error {
	if isPublic(addr) || g.allows(host, addr.WithZone("")) {
		return nil
	}
	return fmt.Errorf("%w: %s is not of the public internet; WEBHOOK_ALLOW names what may be reached besides", ErrInternal, addr)
}

// notPublic are the networks of IPv4 that are not of the public internet, after
// the IANA registry of special-purpose addresses (RFC 6890 and later), and the
// one public address by which a cloud (Azure) tells its machines their secrets.
var notPublic = [...]netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("224.0.0.0/3"), netip.MustParsePrefix("168.63.129.16/32"),
	// Of IPv6 only 2000::/3 is given out; these are parts of it that are not public.
	netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("3fff::/20"),
}

// carriers are networks of IPv6 whose addresses carry one of IPv4, from that byte on.
var carriers = [...]struct {
	netip.Prefix
	at int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12}, // NAT64, RFC 6052
	{netip.MustParsePrefix("2002::/16"), 2},     // 6to4, RFC 3056
}

// isPublic reports whether an address is of the public internet. What carries an
// IPv4 address is what that is.
func isPublic(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() || slices.ContainsFunc(notPublic[:], func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return false
	}
	if addr.Is4() {
		return true
	}
	b := addr.As16()
	for _, c := range carriers {
		if c.Contains(addr) {
			return isPublic(netip.AddrFrom4([4]byte(b[c.at : c.at+4])))
		}
	}
	return b[0]>>5 == 1 // 2000::/3
}

// dial connects to an address only when the guard lets it: the check is made on
// the address that the connection goes to, after the name was resolved.
func (g *Guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: dialTimeout, KeepAlive: -1, Control: func(_, to string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(to)
		if err != nil {
			return fmt.Errorf("%w: %s is no address", ErrInternal, to)
		}
		return g.check(plainHost(host), ap.Addr())
	}}
	return d.DialContext(ctx, network, address)
}

const (
	dialTimeout = 5 * time.Second
	sendTimeout = 15 * time.Second // of a webhook, all in all
)

// client sends webhooks: no proxy, no redirects, no connection that is kept.
func (g *Guard) client(tlsConfig *tls.Config) *http.Client {
	return &http.Client{
		Timeout: sendTimeout,
		Transport: &http.Transport{
			DialContext: g.dial, TLSClientConfig: tlsConfig, TLSHandshakeTimeout: dialTimeout, ForceAttemptHTTP2: true,
			DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
