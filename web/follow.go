package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// followRoutes are the part of the table about live events of the API.
func (s *Server) followRoutes() []route {
	return []route{
		{"GET", "/api/v1/events", api, storage.VerbView, s.eventStream},
		{"GET", "/api/v1/jobs/{id}/events", api, storage.VerbView, s.jobStream},
	}
}

const (
	// longestWait bounds how long an answer is held back for Prefer: wait.
	longestWait = 60 * time.Second
	// lookAgain is how often a job is looked at that no event tells of.
	lookAgain = time.Second
)

// followJob calls seen with a job as it is now and whenever it may have changed,
// until seen answers false, ctx ends or the server stops. Events of its export
// wake it; plain jobs have none, and are looked at every second. idle is called
// when nothing has happened for long.
func (s *Server) followJob(ctx context.Context, scope storage.Scope, id uuid.UUID, seen func(storage.Job) bool, idle func() bool) error {
	j, err := s.store.Job(ctx, scope, id)
	if err != nil {
		return err
	}
	c := &client{scope: scope, only: j.ExportID, wake: make(chan struct{}, 1)}
	every := lookAgain
	if !j.Plain() {
		s.events.join(c)
		defer s.events.leave(c)
		every = s.beat
	}
	tick, quiet := time.NewTicker(every), time.NewTicker(s.beat)
	defer tick.Stop()
	defer quiet.Stop()
	for {
		if j, err = s.store.Job(ctx, scope, id); err != nil { // again: it may have changed before the events came
			return err
		}
		if !seen(j) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.stopping:
			return nil
		case <-c.wake:
			s.events.take(c)
		case <-tick.C:
		case <-quiet.C:
			if !idle() {
				return nil
			}
		}
	}
}

// preferWait is for how long a request prefers to wait for its answer (RFC 7240,
// section 4.3); zero when it does not say, or says what cannot be read.
func preferWait(h http.Header) time.Duration {
	for _, line := range h.Values("Prefer") {
		for part := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			value, _, _ = strings.Cut(value, ";")
			n, err := strconv.Atoi(strings.Trim(strings.TrimSpace(value), `"`))
			if err != nil || n < 1 {
				return 0
			}
			return min(time.Duration(n)*time.Second, longestWait)
		}
	}
	return 0
}

// awaitEnd holds the answer back as long as the request prefers, until a job has
// ended, and answers the job as it is then.
func (s *Server) awaitEnd(w http.ResponseWriter, r *http.Request, j storage.Job) (storage.Job, error) {
	wait := preferWait(r.Header)
	if wait == 0 {
		return j, nil
	}
	w.Header().Set("Preference-Applied", fmt.Sprintf("wait=%d", int(wait.Seconds())))
	w.Header().Add("Vary", "Prefer")
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	err := s.followJob(ctx, of(r).principal.scope, j.ID, func(now storage.Job) bool {
		j = now
		return !j.State.Ended()
	}, func() bool { return true })
	if ctx.Err() != nil && r.Context().Err() == nil { // the wait is over, also in the middle of a look
		return j, nil
	}
	return j, err
}

// jobStream sends the job whenever it changes, as an event "job", and ends with it.
// Each begins with the job as it is, so nothing that was missed has to be sent again.
func (s *Server) jobStream(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	scope := of(r).principal.scope
	if _, err := s.store.Job(r.Context(), scope, id); err != nil {
		return err
	}
	streamHeaders(w.Header())
	if r.Method == http.MethodHead || !send(w, "retry: 2000\n: welcome\n\n") {
		return nil
	}
	last, ticks := "", 1
	err = s.followJob(r.Context(), scope, id, func(j storage.Job) bool {
		j.Error = withoutStack(scope, j.Error)
		raw, err := json.Marshal(j)
		if err != nil || string(raw) == last {
			return err == nil
		}
		last = string(raw)
		return send(w, "event: job\ndata: "+last+"\n\n") && !j.State.Ended()
	}, func() bool {
		ticks++
		return send(w, ": still here\n\n") && (ticks%recheck != 0 || s.stillWelcome(r))
	})
	if err != nil {
		s.log.Debug("a stream of a job ended", "request_id", of(r).id, "job", id, "error", err)
	}
	return nil // the answer has begun
}

func streamHeaders(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
}
