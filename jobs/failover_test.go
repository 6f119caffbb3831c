package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// quickSilence is how soon servers call another one dead where a test waits for it.
const quickSilence = time.Second

// host is a worker with a client of its own, as on another machine.
func (w *world) host(server redisServer, change ...func(*jobs.WorkerConfig)) (stop func()) {
	w.t.Helper()
	r, err := jobs.OpenRedis(w.ctx, server.URL(), w.redis.Namespace, jobs.RedisConcurrency(8))
	w.must(err)
	w.t.Cleanup(func() { _ = r.Client.Close() })
	return w.worker(append(change, func(c *jobs.WorkerConfig) { c.Redis, c.Leaser = r, r.Leaser("w", shortLease) })...)
}

// lawful verifies every law, with nothing left to hand on.
func (w *world) lawful() {
	w.t.Helper()
	_, err := storage.Verify(w.ctx, w.store, w.files, storage.VerifyOptions{}, func(v storage.Violation) { w.t.Error(v) })
	w.must(err)
}

// publishedOnce waits until the jobs are done and looks whether each has exactly one publication.
func (w *world) publishedOnce(list []storage.Job) {
	w.t.Helper()
	for _, job := range list {
		w.ends(job, storage.JobDone)
		published := 0
		for _, a := range w.attempts(job) {
			if a.State == storage.AttemptPublished || a.State == storage.AttemptSuperseded {
				published++
			}
		}
		if published != 1 {
			w.t.Errorf("job %s was published %d times", job.Title, published)
		}
	}
	w.lawful()
}

// Whatever serves Redis, killing it in the middle loses no job and publishes none
// twice, and the workers go on by themselves.
func TestRedisIsKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	type deed struct {
		start func(*testing.T) redisServer
		hurt  func(*testing.T, *world, redisServer)
	}
	sentinel := func(t *testing.T) redisServer { return redistest.Sentinel(t, quickSilence) }
	cluster := func(t *testing.T) redisServer { return redistest.Cluster(t, quickSilence) }
	for name, d := range map[string]deed{
		"TLS": {func(t *testing.T) redisServer { return redistest.Server(t, redistest.TLS()) }, func(t *testing.T, _ *world, r redisServer) {
			r.(*redistest.Redis).Kill()
			r.(*redistest.Redis).Restart(t)
		}},
		"sentinel": {sentinel, func(t *testing.T, w *world, r redisServer) {
			g := r.(*redistest.Group)
			old := g.Primary(t)
			old.Kill()
			w.until("there is another primary", func() bool { return g.Primary(t) != old })
		}},
		"the queue's node of a cluster": {cluster, func(t *testing.T, w *world, r redisServer) {
			bounceNode(t, r, "asynq:{"+w.redis.Namespace+":default}:pending")
		}},
		"the mark's node of a cluster": {cluster, func(t *testing.T, w *world, r redisServer) { bounceNode(t, r, w.redis.Namespace+":mark") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := d.start(t)
			w := newWorld(t, server)
			var rendered atomic.Int32
			hurt := make(chan struct{})
			w.handle("work", func(ctx context.Context, r *jobs.Run) error {
				if rendered.Add(1) > 10 { // the rest waits for the deed, in the middle of its work
					select {
					case <-hurt:
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				}
				return readsAndWrites(ctx, r)
			})
			w.host(server)
			w.host(server)
			var list []storage.Job
			for i := range 30 {
				list = append(list, w.dispatch("work", fmt.Sprint("export ", i)))
			}
			w.until("some work is in the middle", func() bool { return rendered.Load() > 12 })
			d.hurt(t, w, server)
			close(hurt)
			w.publishedOnce(list)
			w.ends(w.dispatch("work", "afterwards"), storage.JobDone)
		})
	}
}

// bounceNode kills the node that holds a key, waits until the others refuse work
// for that, and starts it again, empty.
func bounceNode(t *testing.T, r redisServer, key string) {
	t.Helper()
	g := r.(*redistest.Group)
	node := g.NodeOf(t, key)
	node.Kill()
	redis := openRedis(t, g.URL())
	deadline := time.Now().Add(30 * time.Second)
	for {
		l, err := redis.Layout(t.Context())
		if err == nil && len(l.Missing) == 1 && l.Unserved > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the others do not miss the node: %+v, %v", l, err)
		}
	}
	node.Restart(t)
	g.AwaitCluster(t)
}

// The replica that becomes primary has never seen the lock: two attempts on one
// export hold a lease at once, and still each job is published once and the
// newer stays.
func TestFailoverToAReplicaWithoutTheLock(t *testing.T) {
	t.Parallel()
	g := redistest.Sentinel(t, quickSilence)
	w := newWorld(t, g)
	primary, replica := g.Nodes[0], g.Nodes[1]
	release, began := make(chan struct{}), make(chan struct{})
	var ended atomic.Value
	w.handle("slow", func(ctx context.Context, r *jobs.Run) error {
		close(began)
		<-release
		select {
		case <-ctx.Done(): // the lock is found gone at its next renewal
			ended.Store(context.Cause(ctx))
		case <-time.After(30 * time.Second):
		}
		return readsAndWrites(context.WithoutCancel(ctx), r) // as one who does not notice
	})
	w.handle("quick", readsAndWrites)
	w.host(g)
	w.host(g)

	replica.Pause(t)
	primary.Do(t, "CLIENT", "KILL", "TYPE", "replica")
	first := w.dispatch("slow", "sales")
	<-began
	key := w.redis.Namespace + ":lease:" + first.ExportID.String()
	if primary.Do(t, "EXISTS", key) != int64(1) {
		t.Fatal("the primary has no lock")
	}
	primary.Kill()
	replica.Resume(t)
	w.until("the replica is the primary", func() bool { return g.Primary(t) == replica })

	second := w.dispatch("quick", "sales")
	w.ends(second, storage.JobDone) // nobody held it up
	close(release)
	w.until("the first job has ended", func() bool { return w.job(first.ID).State.Ended() })
	if cause, _ := ended.Load().(error); !errors.Is(cause, jobs.ErrLeaseLost) && !errors.Is(cause, storage.ErrFenced) {
		t.Errorf("the first attempt ended because of %v", cause)
	}
	for _, a := range w.attempts(first) {
		if a.Number == 1 && (a.State == storage.AttemptPublished || a.State == storage.AttemptSuperseded) {
			t.Errorf("the attempt whose lock was lost is %s", a.State)
		}
	}
	w.whole(second)
	w.lawful()
}

// In a cluster all keys of a queue are on one node, which must be the one that is asked.
func TestForgetAQueueOfACluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Cluster(t, 20*time.Second))
	for i, queue := range []string{"a", "b", "c", "d"} { // on several nodes
		job := w.dispatch("none", queue, jobs.Queue(queue))
		_, err := w.redis.RingTwice(w.ctx, job)
		w.must(err)
		if n, err := w.redis.Pending(w.ctx, queue); err != nil || n != 1 {
			t.Fatalf("%d: %d bells wait, %v", i, n, err)
		}
		removed, err := w.redis.ForgetQueue(w.ctx, queue)
		if left, _ := w.redis.Pending(w.ctx, queue); err != nil || removed == 0 || left != 0 {
			t.Errorf("queue %s: %d keys were removed, %d bells are left, %v", queue, removed, left, err)
		}
	}
}
