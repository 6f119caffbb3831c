package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/fenceline/fenceline/storage"
)

// taskType is the only type of asynq task there is: "look at this job".
const taskType = "fenceline:run"

// Redis names what Fenceline keeps in Redis, all of it disposable: asynq's
// queues, the leases, and a mark that tells when Redis was emptied.
type Redis struct {
	Client redis.UniversalClient
	// Namespace begins every name of ours, so that installations can share a server.
	Namespace string
}

// OpenRedis connects to a Redis by its URL (redis:// or rediss://). Its timeouts
// are short: the client's defaults outlast a lease. The caller closes the client.
func OpenRedis(ctx context.Context, address, namespace string) (Redis, error) {
	opt, err := redis.ParseURL(address)
	var wrong *url.Error
	if errors.As(err, &wrong) { // its text holds the URL, and with it the password
		err = wrong.Err
	}
	if err != nil {
		return Redis{}, fmt.Errorf("REDIS_URL: %w", err)
	}
	opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout = 2*time.Second, 2*time.Second, 2*time.Second
	opt.MaxRetries = 1
	client := redis.NewClient(opt)
	if err := client.Ping(ctx).Err(); err != nil {
		_ = client.Close()
		return Redis{}, fmt.Errorf("connect to Redis: %w: %w", storage.ErrUnreachable, err)
	}
	return Redis{Client: client, Namespace: namespace}, nil
}

// QuietRedis keeps the Redis client from writing lines of its own to standard
// error; what goes wrong comes back to callers, who log it. It is for the start
// of a program: the client keeps its logger in a variable of its own.
func QuietRedis() { redis.SetLogger(noLog{}) }

type noLog struct{}

// Printf drops a line.
func (noLog) Printf(context.Context, string, ...any) {}

// Leaser keeps leases in this Redis.
func (r Redis) Leaser(ttl time.Duration) *RedisLeaser {
	return NewRedisLeaser(r.Client, r.Namespace+":lease:", ttl)
}

func (r Redis) queue(name string) string { return r.Namespace + ":" + name }

// emptied reports whether Redis was emptied (or is new) since the last call of
// any relay, by a mark that does not expire.
func (r Redis) emptied(ctx context.Context) (bool, error) {
	fresh, err := r.Client.SetNX(ctx, r.Namespace+":mark", uuid.NewString(), 0).Result()
	if err != nil {
		return false, fmt.Errorf("look for the mark in Redis: %w", err)
	}
	return fresh, nil
}

// call is what the bell says.
type call struct {
	Job   uuid.UUID `json:"job,omitzero"`    // look at this job
	Queue string    `json:"queue,omitempty"` // or at the plain jobs of this queue
}

func taskID(b storage.Bell) string { return fmt.Sprintf("%s-%d", b.ID, b.Generation) }

// errBlocked means that a task of the same name is in Redis and will not be delivered.
var errBlocked = errors.New("the bell's name is blocked")

// ring enqueues the bell of a job. Finding it there already is success, unless it
// is one that nobody will hear: archived, or taken by a worker that has not
// claimed the job since.
func (r Redis) ring(ctx context.Context, client *asynq.Client, inspector *asynq.Inspector, b storage.Bell) error {
	state, err := r.enqueue(ctx, client, inspector, call{Job: b.ID}, b.Queue, taskID(b))
	if err != nil {
		return fmt.Errorf("ring for job %s: %w", b.ID, err)
	}
	if state == asynq.TaskStatePending {
		return nil // it waits for a worker
	}
	if state != asynq.TaskStateActive {
		_ = inspector.DeleteTask(r.queue(b.Queue), taskID(b))
	}
	return errBlocked
}

// ringQueue enqueues up to n bells of a queue of plain jobs, each of which wakes a
// slot. Their names change with the time, so that what a dead worker took with it
// blocks nothing for long.
func (r Redis) ringQueue(ctx context.Context, client *asynq.Client, inspector *asynq.Inspector, queue string, n int) error {
	epoch := time.Now().Unix() / 5
	for rung, i := 0, 0; rung < n && i < 2*bellsAtMost; i++ {
		id := fmt.Sprintf("queue-%s-%d-%d", queue, epoch, i)
		state, err := r.enqueue(ctx, client, inspector, call{Queue: queue}, queue, id)
		if err != nil {
			return fmt.Errorf("ring for queue %s: %w", queue, err)
		}
		if state == asynq.TaskStatePending { // one that is active is a slot at work: it may be full, so wake another
			rung++
		}
	}
	return nil
}

// ringQueueAgain enqueues one more bell of a queue, by a slot that gives itself up.
func (r Redis) ringQueueAgain(ctx context.Context, client *asynq.Client, inspector *asynq.Inspector, queue string) error {
	_, err := r.enqueue(ctx, client, inspector, call{Queue: queue}, queue, "queue-"+queue+"-"+uuid.NewString())
	return err
}

// bellsAtMost bounds how many slots are woken for a queue at once.
const bellsAtMost = 64

// enqueue puts a bell into Redis and answers its state: pending when it is new.
func (r Redis) enqueue(ctx context.Context, client *asynq.Client, inspector *asynq.Inspector, c call, queue, id string) (asynq.TaskState, error) {
	payload, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	_, err = client.EnqueueContext(ctx, asynq.NewTask(taskType, payload), asynq.TaskID(id), asynq.Queue(r.queue(queue)),
		asynq.MaxRetry(0), asynq.Timeout(taskTimeout))
	if err == nil {
		return asynq.TaskStatePending, nil
	}
	if !errors.Is(err, asynq.ErrTaskIDConflict) {
		return 0, err
	}
	info, err := inspector.GetTaskInfo(r.queue(queue), id)
	if errors.Is(err, asynq.ErrTaskNotFound) {
		return asynq.TaskStatePending, nil // delivered just now
	}
	if err != nil {
		return 0, err
	}
	return info.State, nil
}

// taskTimeout keeps asynq from ending a task by itself: the job's own timeout does.
const taskTimeout = 30 * 24 * time.Hour
