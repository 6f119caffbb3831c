package jobs

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
)

// turns gathers what the slots of a worker want from PostgreSQL: while one
// statement is on its way, the ends and claims of the others pile up and go
// together with the next, in one commit.
type turns struct {
	store  *storage.Store
	worker uuid.UUID
	asks   chan *ask
}

// lanes is how many statements are on their way at once: while one waits for its
// commit, another gathers.
const lanes = 3

// togetherAtMost bounds how much one statement does.
const togetherAtMost = 250

// ask is what one slot wants.
type ask struct {
	finish *storage.Finish // nil for none
	queue  string          // to claim from; empty for nothing
	run    uuid.UUID       // the name of the run to be

	claimed *storage.Job
	more    bool // all who asked for this queue got one: there may be more
	became  string
	err     error
	done    chan struct{}
}

func newTurns(store *storage.Store, worker uuid.UUID) *turns {
	return &turns{store: store, worker: worker, asks: make(chan *ask)}
}

// run serves until ctx ends; nobody may ask any more by then.
func (t *turns) run(ctx context.Context) {
	stopped := make(chan struct{}, lanes)
	for range lanes {
		go func() {
			t.lane(ctx)
			stopped <- struct{}{}
		}()
	}
	for range lanes {
		<-stopped
	}
}

func (t *turns) lane(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-t.asks:
			t.serve(ctx, t.gather(first))
		}
	}
}

// gather takes what is waiting by now.
func (t *turns) gather(first *ask) []*ask {
	together := []*ask{first}
	for len(together) < togetherAtMost {
		select {
		case a := <-t.asks:
			together = append(together, a)
		default:
			return together
		}
	}
	return together
}

// turnPatience is how long a turn may stay without an answer.
const turnPatience = time.Minute

func (t *turns) serve(ctx context.Context, together []*ask) {
	var finish []storage.Finish
	var wants []storage.Want
	at := map[string]int{}
	byRun := map[uuid.UUID]*ask{}
	for _, a := range together {
		if a.finish != nil {
			finish = append(finish, *a.finish)
		}
		if a.queue == "" {
			continue
		}
		i, known := at[a.queue]
		if !known {
			i = len(wants)
			at[a.queue], wants = i, append(wants, storage.Want{Queue: a.queue})
		}
		wants[i].Runs = append(wants[i].Runs, a.run)
		byRun[a.run] = a
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), turnPatience)
	defer cancel()
	turned, err := t.store.Turn(ctx, t.worker, finish, wants)
	for _, c := range turned.Claimed {
		if a := byRun[c.Run]; a != nil {
			a.claimed = &c.Job
		}
	}
	got := map[string]int{}
	for _, c := range turned.Claimed {
		got[c.Job.Queue]++
	}
	for _, a := range together {
		a.more = a.claimed != nil && got[a.queue] == len(wants[at[a.queue]].Runs)
		if a.err = err; a.finish != nil {
			a.became = turned.Ended[a.finish.Run]
		}
		close(a.done)
	}
}

// do asks and waits for the answer.
func (t *turns) do(a *ask) {
	a.done = make(chan struct{})
	t.asks <- a
	<-a.done
}
