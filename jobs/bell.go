package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"

	"github.com/fenceline/fenceline/storage"
)

// taskType is the only type of asynq task there is: "look at this job".
const taskType = "fenceline:run"

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
// slot. Bells that wait already count; one that is being answered is a slot at work,
// which may be full, so the next name is tried: from is where to begin, and the answer
// is where to begin the next time. The names change with the time, so that what a
// dead worker took with it blocks nothing for long.
func (r Redis) ringQueue(ctx context.Context, client *asynq.Client, inspector *asynq.Inspector, queue string, n int, from bellName) (bellName, error) {
	if epoch := time.Now().Unix() / 5; epoch != from.epoch {
		from = bellName{epoch: epoch}
	}
	for rung, tries := 0, 0; rung < n && tries < bellTries; tries++ {
		id := fmt.Sprintf("queue-%s-%d-%d", queue, from.epoch, from.at+rung)
		state, err := r.enqueue(ctx, client, inspector, call{Queue: queue}, queue, id)
		if err != nil {
			return from, fmt.Errorf("ring for queue %s: %w", queue, err)
		}
		if state == asynq.TaskStatePending {
			rung++
		} else {
			from.at++
		}
	}
	return from, nil
}

// bellName is where a relay goes on in the names of a queue's bells.
type bellName struct {
	epoch int64
	at    int
}

// ringQueueAgain enqueues one more bell of a queue, by a slot that gives itself up.
func (r Redis) ringQueueAgain(ctx context.Context, client *asynq.Client, inspector *asynq.Inspector, queue string) error {
	_, err := r.enqueue(ctx, client, inspector, call{Queue: queue}, queue, "queue-"+queue+"-"+uuid.NewString())
	return err
}

const (
	// bellsAtMost bounds how many slots a look wakes for a queue. A slot that finds more than was
	// asked for wakes another one, so that their number doubles while there is work.
	bellsAtMost = 64
	// bellTries bounds how many names one look tries.
	bellTries = 128
)

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
