package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// RedisFacts are what a Redis says about itself. What it does not say is left
// at its zero value.
type RedisFacts struct {
	// Server is "redis", or the name of what speaks like it, such as valkey; "miniredis" is the one
	// that runs inside `fenceline up`.
	Server  string
	Version string
	Role    string // master or slave
	// Policy says which keys are dropped when the memory is full: noeviction for none.
	Policy           string
	UsedMemory       int64 // bytes
	MaxMemory        int64 // bytes; 0 for no limit
	AppendOnly, Save bool  // what it keeps on disk; Save is false when that cannot be read
}

// factsOf asks a server about itself.
func factsOf(ctx context.Context, client redis.UniversalClient) (RedisFacts, error) {
	info, err := client.Info(ctx).Result()
	if err != nil {
		return RedisFacts{}, fmt.Errorf("ask Redis about itself: %w", err)
	}
	values := infoValues(info)
	f := RedisFacts{
		Server: "redis", Version: values["redis_version"], Role: values["role"], Policy: values["maxmemory_policy"],
		UsedMemory: number(values["used_memory"]), MaxMemory: number(values["maxmemory"]), AppendOnly: values["aof_enabled"] == "1",
	}
	switch {
	case values["valkey_version"] != "":
		f.Server, f.Version = "valkey", values["valkey_version"]
	case f.Version == "":
		err = askHello(ctx, client, &f)
	}
	if save, err := client.ConfigGet(ctx, "save").Result(); err == nil { // hosted servers refuse CONFIG
		f.Save = save["save"] != ""
	}
	return f, err
}

// infoValues are the lines "name:value" of INFO.
func infoValues(info string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			values[name] = value
		}
	}
	return values
}

// askHello is for servers whose INFO is short.
func askHello(ctx context.Context, client redis.UniversalClient, f *RedisFacts) error {
	answer, err := client.Do(ctx, "HELLO", "3").Result()
	if err != nil {
		return fmt.Errorf("ask Redis for its version: %w", err)
	}
	said, ok := answer.(map[any]any)
	if !ok {
		return fmt.Errorf("ask Redis for its version: HELLO answered %T", answer)
	}
	f.Server, f.Version, f.Role = fmt.Sprint(said["server"]), fmt.Sprint(said["version"]), fmt.Sprint(said["role"])
	return nil
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64) // what is not said counts as 0
	return n
}

// Latency is the middle one of a few round trips.
func (r Redis) Latency(ctx context.Context) (time.Duration, error) {
	times := make([]time.Duration, 7)
	for i := range times {
		start := time.Now()
		if err := r.Client.Ping(ctx).Err(); err != nil {
			return 0, fmt.Errorf("ask Redis: %w", err)
		}
		times[i] = time.Since(start)
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// Clock answers how far the clock of Redis is ahead of the given one, and by
// how much that may be wrong: half of the time that the question took.
func (r Redis) Clock(ctx context.Context, now func() time.Time) (ahead, within time.Duration, err error) {
	if err := r.Client.Ping(ctx).Err(); err != nil { // connects, so that the time of that is not counted
		return 0, 0, fmt.Errorf("ask Redis: %w", err)
	}
	asked := now()
	there, err := r.Client.Time(ctx).Result()
	if err != nil {
		return 0, 0, fmt.Errorf("ask Redis for the time: %w", err)
	}
	within = now().Sub(asked) / 2
	return there.Sub(asked.Add(within)), within, nil
}

// WorkerFacts are about a worker that has told Redis of itself in the last
// seconds.
type WorkerFacts struct {
	Host        string
	PID         int
	Concurrency int
	Queues      []string // that it serves, in order, without the namespace
}

// Workers lists the workers of this namespace that are alive, as asynq keeps
// them in Redis. Only the client's own timeouts bound it.
func (r Redis) Workers() ([]WorkerFacts, error) {
	servers, err := asynq.NewInspectorFromRedisClient(r.Client).Servers()
	if err != nil {
		return nil, fmt.Errorf("list the workers: %w", err)
	}
	var workers []WorkerFacts
	for _, s := range servers {
		w := WorkerFacts{Host: s.Host, PID: s.PID, Concurrency: s.Concurrency}
		for queue := range s.Queues {
			if name, ours := strings.CutPrefix(queue, r.queue("")); ours {
				w.Queues = append(w.Queues, name)
			}
		}
		slices.Sort(w.Queues)
		if len(w.Queues) > 0 {
			workers = append(workers, w)
		}
	}
	slices.SortFunc(workers, func(a, b WorkerFacts) int {
		return cmp.Or(strings.Compare(a.Host, b.Host), a.PID-b.PID)
	})
	return workers, nil
}
