package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// DrillName is the name of [DrillKind].
const DrillName = "drill"

// DrillPayload is version 1 of a drill job's payload.
type DrillPayload struct {
	Seconds int `json:"seconds"` // how long the writing takes, 1 to 300
	Rows    int `json:"rows"`    // how many lines are written, 1 to 10,000
}

// DrillKind writes a small file slowly, so that a worker can be frozen in the
// middle of it. Each line says which token wrote it. It reads nothing, and a
// tenant has one export of it.
func DrillKind() Kind {
	return Kind{Name: DrillName, Version: 1, Decode: func(in Payload) (Task, error) {
		var p DrillPayload
		if err := strictJSON(in.Body, &p, "payload"); err != nil {
			return Task{}, err
		}
		refused := new(invalid.Error)
		if p.Seconds < 1 || p.Seconds > 300 {
			refused.Add("payload.seconds", strconv.Itoa(p.Seconds), "must be 1 to 300")
		}
		if p.Rows < 1 || p.Rows > 10_000 {
			refused.Add("payload.rows", strconv.Itoa(p.Rows), "must be 1 to 10000")
		}
		if err := refused.OrNil(); err != nil {
			return Task{}, err
		}
		return Task{Key: "drill", Title: "Drill", Render: p.render}, nil
	}}
}

func (p DrillPayload) render(ctx context.Context, r *Run) error {
	out, err := r.Create("drill.csv", "csv", "text/csv; charset=utf-8")
	if err != nil {
		return err
	}
	defer out.Close()
	r.Expect(int64(p.Rows))
	if _, err := fmt.Fprint(out, "token,row\r\n"); err != nil {
		return err
	}
	tick := time.NewTicker(time.Duration(p.Seconds) * time.Second / time.Duration(p.Rows))
	defer tick.Stop()
	for row := 1; row <= p.Rows; row++ {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if _, err := fmt.Fprintf(out, "%d,%d\r\n", r.Token(), row); err != nil {
			return err
		}
		r.Progress(int64(row))
	}
	return out.Commit(int64(p.Rows))
}

// LeaseLeft is how long the lease on a resource still lasts if nobody renews it;
// 0 when nobody holds it. The resource of an attempt is its export's id.
func (r Redis) LeaseLeft(ctx context.Context, resource string) (time.Duration, error) {
	left, err := r.Client.PTTL(ctx, r.leaseKey(resource)).Result()
	if err != nil {
		return 0, fmt.Errorf("look at the lease on %s: %w", resource, err)
	}
	return max(left, 0), nil // -2 and -1 stand for no key and no time to live
}

// ForgetLease removes the lease on a resource, whoever holds it. It is for a
// drill's own resources: the holder finds out when it renews.
func (r Redis) ForgetLease(ctx context.Context, resource string) error {
	if err := r.Client.Del(ctx, r.leaseKey(resource)).Err(); err != nil {
		return fmt.Errorf("remove the lease on %s: %w", resource, err)
	}
	return nil
}

func (r Redis) leaseKey(resource string) string { return r.Namespace + ":lease:" + resource }

// ForgetQueue removes everything that Redis holds about one queue: its bells,
// delivered ones too, and asynq's counts. It answers how many keys that were.
// The workers of the queue notice nothing; relays ring again for what is due.
func (r Redis) ForgetQueue(ctx context.Context, queue string) (int64, error) {
	var removed int64
	node, err := r.nodeOf(ctx, queue)
	if err != nil {
		return 0, fmt.Errorf("look for queue %s in Redis: %w", queue, err)
	}
	keys := node.Scan(ctx, 0, "asynq:{"+globEscaper.Replace(r.queue(queue))+"}:*", 1000).Iterator()
	for keys.Next(ctx) {
		n, err := r.Client.Del(ctx, keys.Val()).Result()
		if err != nil {
			return removed, fmt.Errorf("remove queue %s from Redis: %w", queue, err)
		}
		removed += n
	}
	if err := keys.Err(); err != nil {
		return removed, fmt.Errorf("look for queue %s in Redis: %w", queue, err)
	}
	if err := r.Client.SRem(ctx, "asynq:queues", r.queue(queue)).Err(); err != nil {
		return removed, fmt.Errorf("remove queue %s from Redis: %w", queue, err)
	}
	return removed, nil
}

// nodeOf is the server that holds the keys of a queue: in a cluster they are all
// on one node, and to look for keys one must ask it.
func (r Redis) nodeOf(ctx context.Context, queue string) (redis.UniversalClient, error) {
	if c, ok := r.Client.(*redis.ClusterClient); ok {
		return c.MasterForKey(ctx, "asynq:{"+r.queue(queue)+"}:pending")
	}
	return r.Client, nil
}

// ForgetServers removes the entries of asynq servers that were killed, by the
// host and process id that they ran as. They would be shown until they expire.
func (r Redis) ForgetServers(ctx context.Context, host string, pids []int) error {
	for _, list := range []string{"asynq:servers", "asynq:workers"} {
		entries, err := r.Client.ZRange(ctx, list, 0, -1).Result()
		if err != nil {
			return fmt.Errorf("look for killed workers in Redis: %w", err)
		}
		entries = slices.DeleteFunc(entries, func(entry string) bool {
			return !slices.ContainsFunc(pids, func(pid int) bool {
				return strings.HasPrefix(entry, fmt.Sprintf("%s:{%s:%d:", list, host, pid))
			})
		})
		for _, entry := range entries {
			if err := r.Client.Del(ctx, entry).Err(); err != nil {
				return fmt.Errorf("remove a killed worker from Redis: %w", err)
			}
			if err := r.Client.ZRem(ctx, list, entry).Err(); err != nil {
				return fmt.Errorf("remove a killed worker from Redis: %w", err)
			}
		}
	}
	return nil
}

// ForgetMark removes the mark by which relays see that Redis was emptied: the
// next look of any of them rings again for every job that waits.
func (r Redis) ForgetMark(ctx context.Context) error {
	if err := r.Client.Del(ctx, r.markKey()).Err(); err != nil {
		return fmt.Errorf("remove the mark from Redis: %w", err)
	}
	return nil
}

// Marked reports whether a relay has seen this Redis since it was emptied.
func (r Redis) Marked(ctx context.Context) (bool, error) {
	n, err := r.Client.Exists(ctx, r.markKey()).Result()
	if err != nil {
		return false, fmt.Errorf("look for the mark in Redis: %w", err)
	}
	return n == 1, nil
}

func (r Redis) markKey() string { return r.Namespace + ":mark" }

// RingTwice rings for a job once more under a name of its own, as a relay does
// whose first ring was lost on the way back. The bell's name is for [Redis.Heard].
func (r Redis) RingTwice(ctx context.Context, job storage.Job) (bell string, err error) {
	bell = job.ID.String() + "-again"
	payload, err := json.Marshal(call{Job: job.ID})
	if err != nil {
		return "", err
	}
	_, err = asynq.NewClientFromRedisClient(r.Client).EnqueueContext(ctx, asynq.NewTask(taskType, payload), asynq.TaskID(bell),
		asynq.Queue(r.queue(job.Queue)), asynq.MaxRetry(0), asynq.Timeout(taskTimeout))
	if err != nil {
		return "", fmt.Errorf("ring again for job %s: %w", job.ID, err)
	}
	return bell, nil
}

// Pending counts the bells of a queue that wait for a worker.
func (r Redis) Pending(ctx context.Context, queue string) (int64, error) {
	n, err := r.Client.LLen(ctx, "asynq:{"+r.queue(queue)+"}:pending").Result()
	if err != nil {
		return 0, fmt.Errorf("count the bells of queue %s: %w", queue, err)
	}
	return n, nil
}

// Heard reports whether a bell was delivered and its worker is done with it.
func (r Redis) Heard(ctx context.Context, queue, bell string) (bool, error) {
	n, err := r.Client.Exists(ctx, "asynq:{"+r.queue(queue)+"}:t:"+bell).Result()
	if err != nil {
		return false, fmt.Errorf("look for a bell in Redis: %w", err)
	}
	return n == 0, nil
}

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
