package web

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// How often signed links may be asked for. Who has a link that opens is bounded
// only by the first, far above what a person or a program that downloads does.
const (
	linksPerMinute = 600 // of one address, a sixth of them at once
	// maxLinkMisses is how often a minute an address may ask for links that there are not.
	maxLinkMisses = 20
	// maxMissesOfAll is the same for all addresses together. Beyond it each address that
	// has missed at all waits: many that guess must not be worth more than one, and
	// people whose links open are not kept out by them.
	maxMissesOfAll = 500
	everybody      = "everybody"
)

// linkRateError says that who asks for links has to wait.
type linkRateError struct{ wait time.Duration }

// Error says for how long.
func (e *linkRateError) Error() string {
	return fmt.Sprintf("Too many links were asked for. Wait %s and try again.", showDuration(max(e.wait.Round(time.Second), time.Second)))
}

// linkRate answers for links within their rate, and counts those that there are not.
func (s *Server) linkRate(handle func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		address := clientKey(r.RemoteAddr)
		wait := max(s.links.take(address), s.misses.blocked(r.Context(), address))
		if wait == 0 && s.missed.blocked(r.Context(), address) > 0 {
			wait = s.allMisses.blocked(r.Context(), everybody)
		}
		if wait > 0 {
			s.log.Warn("too many links asked for", "request_id", of(r).id, "address", address)
			return &linkRateError{wait}
		}
		err := handle(w, r)
		if errors.Is(err, storage.ErrNotFound) || errors.Is(err, errMissing) {
			s.misses.failed(r.Context(), address)
			s.missed.failed(r.Context(), address)
			s.allMisses.failed(r.Context(), everybody)
		}
		return err
	}
}
