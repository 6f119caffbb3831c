package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/fenceline/fenceline/storage"
)

// Redis names what Fenceline keeps in Redis, all of it disposable: asynq's
// queues, the leases, and a mark that tells when Redis was emptied. No command
// touches keys of two hash slots, so a cluster will do.
type Redis struct {
	Client redis.UniversalClient
	// Namespace begins every name of ours, so that installations can share a server.
	Namespace string

	sentinels *sentinels // that were asked for the primary; nil without
	// unverified says that the server's certificate is not looked at.
	unverified bool
}

// RedisOption tunes the client of [OpenRedis].
type RedisOption func(*redis.UniversalOptions)

// RedisConcurrency makes room for a process that runs n jobs at once: each may be
// renewing its lease at the same moment. A pool_size in the address wins.
func RedisConcurrency(n int) RedisOption {
	const others = 12 // asynq's own loops, the relay, the one who asks whether we are ready
	return func(o *redis.UniversalOptions) {
		if o.PoolSize == 0 {
			o.PoolSize = n + others
		}
	}
}

// OpenRedis connects to the Redis at an address: a server, the primary that
// sentinels name, or a cluster.
//
//	redis://[USER:PASSWORD@]HOST[:PORT][/DB]
//	redis-sentinel://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…]/PRIMARY[/DB]
//	redis-cluster://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…]
//	unix://[USER:PASSWORD@]/PATH?db=DB
//
// rediss, rediss-sentinel and rediss-cluster are the same over TLS, with the
// parameters ca (a file with the authorities to trust instead of the system's),
// cert and key (files of a client's certificate), server_name, and
// skip_verify=true. Sentinels with a password of their own take sentinel_user
// and sentinel_password.
//
// What is wrong with the address is an [*invalid.Error] that repeats no part of
// it that could be secret. [storage.ErrUnreachable] when nobody answers. The
// timeouts are short, two seconds and one further try: the client's defaults
// outlast a lease. The caller closes the client.
func OpenRedis(ctx context.Context, address, namespace string, options ...RedisOption) (Redis, error) {
	a, err := parseRedisAddress(address)
	if err != nil {
		return Redis{}, err
	}
	for _, o := range options {
		o(&a.options)
	}
	client := redis.NewUniversalClient(&a.options)
	if err := client.Ping(ctx).Err(); err != nil {
		_ = client.Close()
		return Redis{}, fmt.Errorf("connect to Redis: %w: %w", storage.ErrUnreachable, err)
	}
	return Redis{Client: client, Namespace: namespace, sentinels: a.sentinels(), unverified: a.unverified()}, nil
}

// QuietRedis keeps the Redis client from writing lines of its own to standard
// error; what goes wrong comes back to callers, who log it. It is for the start
// of a program: the client keeps its logger in a variable of its own.
func QuietRedis() { redis.SetLogger(noLog{}) }

type noLog struct{}

// Printf drops a line.
func (noLog) Printf(context.Context, string, ...any) {}

// Leaser keeps leases of an owner in this Redis.
func (r Redis) Leaser(owner string, ttl time.Duration) *RedisLeaser {
	return NewRedisLeaser(LeaseOptions{Owner: owner, Prefix: r.Namespace + ":lease:", TTL: ttl}, r.Client)
}

func (r Redis) queue(name string) string { return r.Namespace + ":" + name }

// emptied reports whether Redis was emptied (or is new) since the last call of
// any relay, by a mark that does not expire. In a cluster the mark is on one
// node; the bells of another that was emptied come back when they were not
// answered for a while.
func (r Redis) emptied(ctx context.Context) (bool, error) {
	fresh, err := r.Client.SetNX(ctx, r.Namespace+":mark", uuid.NewString(), 0).Result()
	if err != nil {
		return false, fmt.Errorf("look for the mark in Redis: %w", err)
	}
	return fresh, nil
}
