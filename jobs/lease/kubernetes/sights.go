package kubernetes

import (
	"sync"
	"time"
)

// sights remember which version of an object was seen first when, by the monotonic
// clock of this process. The zero value remembers nothing. They are safe for concurrent use.
type sights struct {
	mu      sync.Mutex
	of      map[string]sight
	cleared time.Time
}

type sight struct {
	version     string
	first, last time.Time
}

// forgetAfter is how long an object is remembered that nobody asks for any more. To
// forget one too early costs its lease's time again, never more.
const forgetAfter = 10 * time.Minute

// unchanged answers for how long an object is known to have had this version.
func (s *sights) unchanged(object, version string, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of, s.cleared = map[string]sight{}, now
	}
	if now.Sub(s.cleared) > forgetAfter {
		s.cleared = now
		for name, x := range s.of {
			if now.Sub(x.last) > forgetAfter {
				delete(s.of, name)
			}
		}
	}
	seen, known := s.of[object]
	if !known || seen.version != version {
		seen = sight{version: version, first: now}
	}
	seen.last = now
	s.of[object] = seen
	return now.Sub(seen.first)
}

// forget is for an object that nobody holds.
func (s *sights) forget(object string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, object)
}
