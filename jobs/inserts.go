package jobs

import (
	"context"
	"sync"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// inserts gathers jobs that are dispatched at the same time: while one statement
// is on its way, others pile up and go together with the next. It starts its
// goroutines when there is something to do and keeps none. It is safe for
// concurrent use.
type inserts struct {
	store *storage.Store

	mu      sync.Mutex
	waiting []*insert
	lanes   int
}

type insert struct {
	job   storage.NewJob
	taken bool
	out   storage.Dispatched
	err   error
	done  chan struct{}
}

// do inserts a job and waits. A caller whose context ends before its job was sent
// gets nothing inserted; later the answer is awaited, because only it says what became of the job.
func (s *inserts) do(ctx context.Context, n storage.NewJob) (storage.Dispatched, error) {
	in := &insert{job: n, done: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, in)
	if s.lanes < insertLanes {
		s.lanes++
		go s.lane(context.WithoutCancel(ctx))
	}
	s.mu.Unlock()
	select {
	case <-in.done:
	case <-ctx.Done():
		if s.withdraw(in) {
			return storage.Dispatched{}, context.Cause(ctx)
		}
		<-in.done
	}
	if in.err != nil {
		return storage.Dispatched{}, in.err
	}
	return in.out, in.out.Err
}

// withdraw takes back what was not sent yet.
func (s *inserts) withdraw(in *insert) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.taken {
		return false
	}
	for i, other := range s.waiting {
		if other == in {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			break
		}
	}
	return true
}

// insertLanes is how many inserts are on their way at once: few, so that more go together.
const insertLanes = 2

// insertPatience is how long an insert may stay without an answer.
const insertPatience = 15 * time.Second

func (s *inserts) lane(ctx context.Context) {
	for {
		s.mu.Lock()
		part := s.waiting[:min(len(s.waiting), togetherAtMost)]
		s.waiting = s.waiting[len(part):]
		if len(part) == 0 {
			s.lanes--
			s.waiting = nil
			s.mu.Unlock()
			return
		}
		for _, in := range part {
			in.taken = true
		}
		s.mu.Unlock()
		s.send(ctx, part)
	}
}

// send inserts a part at once; when PostgreSQL refuses it, one after the other,
// so that what is wrong with one is the answer to that one alone.
func (s *inserts) send(ctx context.Context, part []*insert) {
	ctx, cancel := context.WithTimeout(ctx, insertPatience)
	defer cancel()
	list := make([]storage.NewJob, len(part))
	for i, in := range part {
		list[i] = in.job
	}
	out, err := s.store.InsertNow(ctx, list)
	for i, in := range part {
		switch {
		case err == nil:
			in.out = out[i]
		case len(part) == 1 || ctx.Err() != nil:
			in.err = err
		default:
			s.send(ctx, part[i:i+1])
			continue
		}
		close(in.done)
	}
}
