package notify

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs/invalid"
)

func newGuard(t *testing.T, allow ...string) *Guard {
	t.Helper()
	g, err := NewGuard(allow)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestPublicAddresses(t *testing.T) {
	t.Parallel()
	for text, public := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "172.15.255.255": true, "172.32.0.0": true, "100.63.255.255": true, "100.128.0.0": true,
		"192.167.255.255": true, "169.253.255.255": true, "223.255.255.255": true, "2606:4700::1111": true, "2a00:1450:4001::1": true,
		"0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false, "10.255.255.255": false, "127.0.0.1": false, "127.255.0.1": false,
		"100.64.0.1": false, "100.100.100.200": false, "100.127.255.255": false, "169.254.169.254": false, "172.16.0.1": false, "172.31.255.255": false,
		"192.0.0.192": false, "192.0.2.1": false, "192.168.1.1": false, "198.18.0.1": false, "198.19.255.255": false, "198.51.100.1": false,
		"203.0.113.1": false, "224.0.0.1": false, "240.0.0.1": false, "255.255.255.255": false, "168.63.129.16": false, "192.88.99.1": false,
		"::": false, "::1": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:8.8.8.8": true, "::127.0.0.1": false, "::8.8.8.8": false,
		"fe80::1": false, "fe80::1%eth0": false, "febf::1": false, "fec0::1": false, "fc00::1": false, "fd00:ec2::254": false, "ff02::1": false,
		"2001:db8::1": false, "2001::1": false, "3fff::1": false, "100::1": false, "5f00::1": false, "4000::1": false,
		"64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b::808:808": true, "64:ff9b:1::808:808": false,
		"2002:7f00:1::": false, "2002:a9fe:a9fe::1": false, "2002:c0a8:101::1": false, "2002:808:808::1": true,
	} {
		if got := isPublic(netip.MustParseAddr(text)); got != public {
			t.Errorf("%s is public: %t, want %t", text, got, public)
		}
	}
	if isPublic(netip.Addr{}) {
		t.Error("no address is public")
	}
}

func TestWebhookURLs(t *testing.T) {
	t.Parallel()
	g := newGuard(t, "hooks.internal", "10.1.0.0/16", "127.0.0.9", "fd00::/8")
	for text, ok := range map[string]bool{
		"https://example.com/hooks?a=b": true, "https://example.com:8443/x": true, "https://EXAMPLE.com./x": true, "https://8.8.8.8/x": true,
		"https://[2606:4700::1111]/x": true, "https://xn--bcher-kva.example/": true, "https://169.254.169.254.example.com/": true,
		"http://hooks.internal/x": true, "http://HOOKS.internal./x": true, "https://hooks.internal:1/": true, "http://10.1.2.3/x": true, "https://127.0.0.9/": true,
		"http://[fd00::1]/":    true,
		"http://example.com/x": false, "http://8.8.8.8/": false, "ftp://example.com/": false, "file:///etc/passwd": false, "gopher://example.com/": false,
		"example.com/x": false, "//example.com/x": false, "https:example.com": false, "https://": false, "https:///x": false, "": false, "javascript:alert(1)": false,
		"https://user@example.com/": false, "https://user:hunter2@example.com/": false, "https://example.com@127.0.0.1/": false, "https://example.com/#x": false,
		"https://example.com:0/": false, "https://example.com:65536/": false, "https://example.com:http/": false, "https://example.com:/": false, "https://example.com:-1/": false,
		"https://127.0.0.1/": false, "https://127.0.0.1./": false, "https://127.1/": false, "https://2130706433/": false, "https://0x7f000001/": false, "https://0X7F.1/": false,
		"https://017700000001/": false, "https://0177.0.0.1/": false, "https://0/": false, "https://localhost/": false, "https://LOCALHOST./": false, "https://a.localhost/": false,
		"https://[::1]/": false, "https://[::]/": false, "https://[::ffff:127.0.0.1]/": false, "https://[::ffff:7f00:1]/": false, "https://[fe80::1%25eth0]/": false,
		"https://[64:ff9b::7f00:1]/": false, "https://[2002:7f00:1::]/": false, "https://169.254.169.254/latest/meta-data/": false, "https://10.2.0.1/": false,
		"https://example.com\r\nHost: x/": false, "https://exa mple.com/": false, "https://exämple.com/": false, "https://１２７.0.0.1/": false, "https://a..b/": false,
		"https://example.com/" + strings.Repeat("x", 2000): false,
	} {
		err := g.CheckURL(text)
		if (err == nil) != ok {
			t.Errorf("%q: %v, want it to pass: %t", text, err, ok)
		}
		var bad *invalid.Error
		if err != nil && (!errors.As(err, &bad) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%q: the error is %v", text, err)
		}
	}
}

func TestWebhookAllow(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{"http://a", "a b", "10.0.0.0/33", "a:80", "*.internal", "0x7f000001", "127.1", "", "fe80::1%eth0"} {
		if _, err := NewGuard([]string{entry}); err == nil || !strings.Contains(err.Error(), "WEBHOOK_ALLOW") {
			t.Errorf("%q: %v", entry, err)
		}
	}
}

// What decides is the address that the connection goes to: a name says nothing.
func TestDialIsGuarded(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was reached") }))
	defer srv.Close()
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, host := range []string{"127.0.0.1", "localhost", "::ffff:127.0.0.1", "::1", "0.0.0.0", "[::]"} {
		host = strings.Trim(host, "[]")
		conn, err := newGuard(t, "10.0.0.0/8", "example.com").dial(ctx, "tcp", net.JoinHostPort(host, port))
		if err == nil {
			_ = conn.Close()
		}
		if !errors.Is(err, ErrInternal) {
			t.Errorf("%s: %v", host, err)
		}
	}
	// A name that leads to what is internal, as after DNS rebinding: only dialling finds it out.
	client := newGuard(t).client(nil)
	if res, err := client.Get("http://localhost:" + port + "/"); !errors.Is(err, ErrInternal) {
		t.Errorf("by the client: %v, %v", res, err)
	}
	if transport := client.Transport.(*http.Transport); transport.Proxy != nil {
		t.Error("a proxy would be asked, and would reach what it likes")
	}
	for _, allow := range []string{"127.0.0.0/8", "localhost"} {
		conn, err := newGuard(t, allow).dial(ctx, "tcp4", "localhost:"+port)
		if err != nil {
			t.Errorf("%s is allowed: %v", allow, err)
			continue
		}
		_ = conn.Close()
	}
	if _, err := newGuard(t, "localhost").dial(ctx, "tcp", "127.0.0.1:"+port); !errors.Is(err, ErrInternal) {
		t.Errorf("another name for what is allowed by its name: %v", err)
	}
}
