package web

import (
	"net/http"
	"net/netip"
	"strings"
)

// fromProxy makes a request look as it came to the outermost trusted proxy: with
// the client's address, and with word whether it came over TLS. A proxy adds whom
// it heard from at the right of X-Forwarded-For, so that it is read from there,
// as far as the proxies are trusted: what stands further left may be made up.
// Without a trusted peer the headers mean nothing.
func (s *Server) fromProxy(r *http.Request) (tls bool) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !s.trusts(peer.Addr()) {
		return false
	}
	client := peer.Addr().Unmap()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && s.trusts(client); i-- {
		hop, ok := hopAddress(hops[i])
		if !ok {
			break
		}
		client = hop
	}
	if client != peer.Addr().Unmap() {
		r.RemoteAddr = netip.AddrPortFrom(client, 0).String()
	}
	schemes := strings.Split(strings.Join(r.Header.Values("X-Forwarded-Proto"), ","), ",")
	return strings.EqualFold(strings.TrimSpace(schemes[len(schemes)-1]), "https")
}

func (s *Server) trusts(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	for _, p := range s.proxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// hopAddress reads an address of X-Forwarded-For; some proxies add the port.
func hopAddress(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap().WithZone(""), true
	}
	a, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return a.Unmap().WithZone(""), err == nil
}

// overTLS reports whether a browser speaks TLS to us, or to a proxy that we trust.
func (s *Server) overTLS(r *http.Request) bool { return s.secure || of(r).tls }

// base is how who makes a request reaches us: the public address, with the scheme
// that a trusted proxy tells of when it is the same host.
func (s *Server) base(r *http.Request) string {
	if host, plain := strings.CutPrefix(s.publicURL, "http://"); plain && of(r).tls && strings.EqualFold(host, r.Host) {
		return "https://" + host
	}
	return s.publicURL
}
