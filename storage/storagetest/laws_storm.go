package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
)

// seedVariable repeats the choices of a storm that failed, although not how its
// goroutines take turns.
const seedVariable = "FENCELINE_STORM_SEED"

// weather is a storm while it lasts: workers without any lease, a clean-up that
// waits for nothing, jobs that are handed on while their workers live, cancelled
// and delivered twice, and readers who trust the pointer.
type weather struct {
	*scene
	seed uint64

	mu   sync.Mutex
	seen map[string]int // what happened how often
}

// enough says when a storm has shown what it is for.
var enough = [...]struct {
	what string
	n    int
}{{"published", 20}, {"fenced", 5}, {"condemned", 10}, {"cancelled", 1}, {"read", 50}}

const (
	stormKeys    = 8
	stormWorkers = 4
	stormLongest = 3 * time.Minute
)

func storm(s *scene) {
	w := &weather{scene: s, seed: rand.Uint64(), seen: map[string]int{}}
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		w.seed, err = strconv.ParseUint(text, 10, 64)
		s.must(err)
	}
	s.Logf("%s=%d", seedVariable, w.seed)
	s.exec("CREATE TABLE truth AS SELECT 1 AS n")
	ctx, stop := context.WithTimeout(s.ctx, stormLongest)
	defer stop()
	var wg sync.WaitGroup
	for i, do := range w.roles() {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(w.seed, uint64(i)))
			for ctx.Err() == nil && !w.over() {
				if err := do(random); err != nil {
					s.Errorf("in the storm: %v", err)
					stop()
				}
			}
		})
	}
	wg.Wait()
	s.Logf("%v", w.seen)
	if !w.over() {
		s.Errorf("the storm shows too little: %v", w.seen)
	}
	w.calm()
}

func (w *weather) roles() []func(*rand.Rand) error {
	roles := []func(*rand.Rand) error{w.dispatch, w.clean, w.check, w.disturb}
	for range 2 {
		roles = append(roles, w.reader())
	}
	for range stormWorkers {
		roles = append(roles, w.work)
	}
	return roles
}

func (w *weather) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[what]++
}

func (w *weather) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range enough {
		if w.seen[e.what] < e.n {
			return false
		}
	}
	return true
}

func stormJob(random *rand.Rand) storage.NewJob {
	n := newJob(fmt.Sprint("export", random.IntN(stormKeys)))
	n.MaxAttempts, n.MaxCrashes = 1_000_000, 1_000_000
	return n
}

// dispatch keeps some jobs waiting, each sent twice, and lets the data change.
func (w *weather) dispatch(random *rand.Rand) error {
	var waiting int
	err := w.pool.QueryRow(w.ctx, "SELECT count(*) FROM fenceline.jobs WHERE state = 'queued'").Scan(&waiting)
	if err != nil || waiting >= 2*stormWorkers {
		return err
	}
	n := stormJob(random)
	n.IdempotencyKey = strconv.FormatUint(random.Uint64(), 36)
	first, err := w.tryInsert(n)
	if err != nil {
		return err
	}
	again, err := w.tryInsert(n)
	if err == nil && first.ID != again.ID {
		err = fmt.Errorf("one idempotency key made the jobs %s and %s", first.ID, again.ID)
	}
	if err == nil {
		_, err = w.pool.Exec(w.ctx, "UPDATE truth SET n = n + 1")
	}
	return err
}

// clean cleans up without pause. Often the grace is zero, so that whoever works
// is condemned.
func (w *weather) clean(random *rand.Rand) error {
	o := atOnce
	if random.IntN(6) != 0 {
		o.Grace = time.Hour
	}
	return w.trySweep(o)
}

// check verifies while all of this goes on. Files of replaced attempts are not kept.
func (w *weather) check(*rand.Rand) error {
	_, err := storage.Verify(w.ctx, w.Store, w.Files, storage.VerifyOptions{Sweep: atOnce}, func(v storage.Violation) {
		w.Errorf("in the middle of the storm: %s", v)
	})
	pause(w.ctx, 100*time.Millisecond)
	return err
}

// disturb hands a job on although its worker lives, cancels one, or rings for all.
func (w *weather) disturb(random *rand.Rand) error {
	var err error
	switch random.IntN(8) {
	case 0:
		var id uuid.UUID
		err = w.pool.QueryRow(w.ctx, `SELECT coalesce((SELECT id FROM fenceline.jobs WHERE state IN ('queued', 'running') ORDER BY random() LIMIT 1),
			'00000000-0000-0000-0000-000000000000')`).Scan(&id)
		if err == nil && id != uuid.Nil {
			_, err = w.Store.CancelJob(w.ctx, storage.Scope{All: true}, id)
		}
	case 1:
		_, err = w.Store.RingAll(w.ctx)
	case 2:
		_, err = w.Store.HandOnLost(w.ctx, -time.Hour, 1)
	default:
		_, err = w.Store.HandOnLost(w.ctx, time.Hour, 100) // those of condemned attempts
	}
	pause(w.ctx, 10*time.Millisecond)
	return err
}

// pause lets the others have their turns.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// work takes a job that others may take too, and does it more or less well.
func (w *weather) work(random *rand.Rand) error {
	bells, err := w.Store.TakeBells(w.ctx, stormWorkers, 0)
	if err != nil || len(bells) == 0 {
		pause(w.ctx, time.Millisecond)
		return err
	}
	id := bells[random.IntN(len(bells))].ID
	b, err := w.Store.BeginAttempt(w.ctx, id, "storm")
	if errors.Is(err, storage.ErrNotDue) {
		w.count("not due")
		return nil
	}
	if err != nil {
		return err
	}
	job, err := w.Store.Job(w.ctx, storage.Scope{All: true}, id)
	if err != nil {
		return err
	}
	if random.IntN(12) == 0 {
		w.count("crashed")
		return nil
	}
	return w.attempt(random, job, b)
}

// attempt goes from the look to the publish. It gives up where it is told to,
// or ignores that; whatever it does must do no harm.
func (w *weather) attempt(random *rand.Rand, job storage.Job, b storage.Begun) error {
	text, asOf, err := w.look(job.ExportID, b.Token, truth)
	if errors.Is(err, storage.ErrFenced) {
		w.count("overtaken")
		return w.giveUp(b, overtook)
	}
	if err != nil {
		return err
	}
	err = w.Store.Heartbeat(w.ctx, b.ID, storage.Progress{Step: "write"})
	if errors.Is(err, storage.ErrCancelled) {
		w.count("cancelled")
	}
	if err != nil && random.IntN(2) == 0 {
		return w.giveUp(b, released)
	}
	if err := w.writeAndSeal(job, b, text, asOf); errors.Is(err, storage.ErrCondemned) {
		w.count("condemned")
		return w.giveUp(b, released)
	} else if err != nil { // its folder is gone
		w.count("not sealed")
		return w.giveUp(b, released)
	}
	switch random.IntN(12) {
	case 0:
		w.count("crashed")
		return nil
	case 1:
		return w.giveUp(b, failed)
	case 2, 3: // it freezes, and is thought lost
		if _, err := w.Store.HandOnLost(w.ctx, -time.Hour, 1000); err != nil {
			return err
		}
	}
	return w.publish(random, b)
}

func (w *weather) giveUp(b storage.Begun, e storage.Ending) error {
	_, err := w.Store.EndAttempt(w.ctx, b.ID, e)
	return err
}

func (w *weather) publish(random *rand.Rand, b storage.Begun) error {
	err := w.Store.Publish(w.ctx, b.ID)
	switch {
	case !isOutcome(err):
		return fmt.Errorf("publish answered %w", err)
	case err == nil:
		w.count("published")
	case errors.Is(err, storage.ErrFenced):
		w.count("fenced")
	case errors.Is(err, storage.ErrCondemned):
		w.count("condemned")
	case errors.Is(err, storage.ErrCancelled):
		w.count("cancelled")
	}
	if random.IntN(4) != 0 {
		return nil
	}
	again := w.Store.Publish(w.ctx, b.ID)
	if (err == nil) != (again == nil) {
		return fmt.Errorf("publish answered %w, and then %w", err, again)
	}
	return nil
}

// reader follows pointers: what one names must be there and whole, and neither
// tokens nor data may go back.
func (w *weather) reader() func(*rand.Rand) error {
	tokens, versions := map[uuid.UUID]int64{}, map[uuid.UUID]int{}
	return func(*rand.Rand) error {
		pause(w.ctx, time.Millisecond)
		var p files.Place
		err := w.pool.QueryRow(w.ctx, `SELECT coalesce(e.id, $1), coalesce(last_token, 0), coalesce(attempt_id, $1) FROM (SELECT) one
			LEFT JOIN (SELECT * FROM fenceline.exports WHERE attempt_id IS NOT NULL ORDER BY random() LIMIT 1) e ON true`, uuid.Nil).
			Scan(&p.Export, &p.Token, &p.Attempt)
		if err != nil || p.Token == 0 {
			return err
		}
		text, err := w.read(p)
		if err != nil {
			return w.stillThere(p, err)
		}
		version, err := strconv.Atoi(text)
		if err == nil && (p.Token < tokens[p.Export] || version < versions[p.Export]) {
			err = fmt.Errorf("token %d with version %d is current after token %d with version %d", p.Token, version, tokens[p.Export], versions[p.Export])
		}
		tokens[p.Export], versions[p.Export] = p.Token, version
		w.count("read")
		return err
	}
}

// stillThere is nil when the pointer has moved on since: the clean-up keeps nothing for readers here.
func (w *weather) stillThere(p files.Place, why error) error {
	var still bool
	err := w.pool.QueryRow(w.ctx, "SELECT attempt_id = $2 FROM fenceline.exports WHERE id = $1", p.Export, p.Attempt).Scan(&still)
	if err == nil && still {
		err = fmt.Errorf("the current file of token %d: %w", p.Token, why)
	}
	return err
}

// calm finishes what is left, cleans up and looks at everything.
func (w *weather) calm() {
	w.handOn()
	random := rand.New(rand.NewPCG(w.seed, 99))
	for {
		bells, err := w.Store.TakeBells(w.ctx, 1, 0)
		w.must(err)
		if len(bells) == 0 {
			break
		}
		job, err := w.Store.Job(w.ctx, storage.Scope{All: true}, bells[0].ID)
		w.must(err)
		b := w.begin(job)
		text, asOf, err := w.look(job.ExportID, b.Token, truth)
		w.must(err)
		w.must(w.writeAndSeal(job, b, text, asOf))
		w.must(w.publish(random, b))
		w.jobIs(job, storage.JobDone)
	}
	if n := w.number("SELECT count(*) FROM fenceline.jobs WHERE finished_at IS NULL"); n != 0 {
		w.Errorf("%d jobs have not ended", n)
	}
	w.sweep(atOnce)
	w.probe()
	w.sweep(atOnce)
	sum := w.verify(storage.VerifyOptions{Sweep: atOnce, Drained: true})
	current := w.number("SELECT count(attempt_id) FROM fenceline.exports")
	if sum.Garbage != 0 || sum.Unknown != 0 || sum.Files != current {
		w.Errorf("after the storm there should be the current files and nothing else: %+v", sum)
	}
}
