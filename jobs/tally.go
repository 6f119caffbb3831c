package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// tallyPatience is how long one question may take: somebody waits to sign in.
	tallyPatience = 300 * time.Millisecond
	// tallyRest is for how long Redis is not asked after it gave no answer.
	tallyRest = 5 * time.Second
)

// Tally counts in Redis what several processes must not each allow as often: tries
// to sign in, and links that open nothing. Like all else in Redis it may be lost;
// who counts with it counts for itself besides. It is safe for concurrent use.
type Tally struct {
	redis Redis
	rest  atomic.Int64 // in nanoseconds since 1970: until when Redis is left alone
}

// NewTally counts in a Redis, which the caller closes afterwards.
func NewTally(r Redis) *Tally { return &Tally{redis: r} }

// tallyAdd adds to a count in its window, unless it has reached the most there may
// be: then it answers how long the window goes on, in milliseconds. One script,
// because two commands could leave a count without an end, and it would block for ever.
func tallyAdd() *redis.Script {
	return redis.NewScript(`
local n, left = tonumber(redis.call('GET', KEYS[1]) or '0'), redis.call('PTTL', KEYS[1])
local most, window, add = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if n > 0 and left < 0 then
	redis.call('PEXPIRE', KEYS[1], window)
	left = window
end
if n >= most then return math.max(left, 1) end
if add > 0 or (add < 0 and n > 0) then
	redis.call('INCRBY', KEYS[1], add)
	if n == 0 then redis.call('PEXPIRE', KEYS[1], window) end
end
return 0`)
}

// Add counts n more (it may be 0, to look, or -1, to take one back) under a key, whose
// window begins with its first. When there are most already it adds nothing and answers
// how long the window goes on. An error says that Redis gave no answer, now or a
// moment ago; then nothing was counted.
func (t *Tally) Add(ctx context.Context, key string, most int, window time.Duration, n int) (time.Duration, error) {
	var ms int64
	err := t.ask(ctx, func(ctx context.Context) (err error) {
		ms, err = tallyAdd().Run(ctx, t.redis.Client, []string{t.key(key)}, most, window.Milliseconds(), n).Int64()
		return err
	})
	return time.Duration(ms) * time.Millisecond, err
}

// Clear forgets what was counted under a key.
func (t *Tally) Clear(ctx context.Context, key string) error {
	return t.ask(ctx, func(ctx context.Context) error { return t.redis.Client.Del(ctx, t.key(key)).Err() })
}

func (t *Tally) ask(ctx context.Context, question func(context.Context) error) error {
	if time.Now().UnixNano() < t.rest.Load() {
		return fmt.Errorf("count in Redis: it gave no answer a moment ago")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tallyPatience)
	defer cancel()
	if err := question(ctx); err != nil {
		t.rest.Store(time.Now().Add(tallyRest).UnixNano())
		return fmt.Errorf("count in Redis: %w", err)
	}
	return nil
}

// key names a count. Addresses and names of people do not stand in Redis.
func (t *Tally) key(key string) string {
	sum := sha256.Sum256([]byte(key))
	return t.redis.Namespace + ":tally:" + hex.EncodeToString(sum[:16])
}
