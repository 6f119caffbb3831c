package localredis

import (
	"bytes"
	"context"
	"errors"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenceline/fenceline/jobs/invalid"
)

func started(t *testing.T) *Server {
	t.Helper()
	s, err := Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func connect(t *testing.T, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.MaxRetries = -1
	c := redis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}

// eventually polls, because what is tested is that time passes by itself.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for end := time.After(60 * time.Second); !ok(); {
		select {
		case <-poll.C:
		case <-end:
			t.Fatal("never: " + what)
		}
	}
}

func TestKeysExpireByThemselves(t *testing.T) {
	t.Parallel()
	c, ctx := connect(t, started(t).URL()), t.Context()
	const life = 200 * time.Millisecond
	begin := time.Now()
	if err := c.Set(ctx, "short", "x", life).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Set(ctx, "long", "x", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the key expires", func() bool { return c.Get(ctx, "short").Err() == redis.Nil })
	if lived := time.Since(begin); lived < life-2*tick {
		t.Errorf("the key lived %v, not about %v", lived, life)
	}
	if left, err := c.PTTL(ctx, "long").Result(); err != nil || left >= time.Hour || left < time.Hour-time.Minute {
		t.Errorf("the other key has %v left, %v", left, err)
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	c, ctx := connect(t, started(t).URL()), t.Context()
	take := func(owner string, life time.Duration) bool {
		t.Helper()
		err := c.SetArgs(ctx, "lock", owner, redis.SetArgs{Mode: "NX", TTL: life}).Err()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		return err == nil
	}
	if !take("a", 3*time.Second) || take("b", time.Minute) {
		t.Fatal("SET NX PX does not lock")
	}
	eventually(t, "the lock is free again", func() bool { return take("c", time.Minute) })
	// What lock libraries release with.
	const release = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`
	for _, owner := range []string{"a", "c"} {
		want := map[string]int{"a": 0, "c": 1}[owner]
		if got, err := c.Eval(ctx, release, []string{"lock"}, owner).Int(); err != nil || got != want {
			t.Errorf("release by %s: %d, %v, want %d", owner, got, err, want)
		}
	}
}

func TestPasswordIsNeeded(t *testing.T) {
	t.Parallel()
	s := started(t)
	for _, url := range []string{"redis://" + s.Addr(), "redis://:guess@" + s.Addr()} {
		if err := connect(t, url).Get(t.Context(), "x").Err(); err == nil || err == redis.Nil {
			t.Errorf("%s was let in: %v", url, err)
		}
	}
	if started(t).password == s.password {
		t.Error("two servers have one password")
	}
}

func TestOnlyLoopback(t *testing.T) {
	t.Parallel()
	for addr, ok := range map[string]bool{
		"127.0.0.1:0": true, "localhost:0": true, "127.0.0.2:0": true,
		"0.0.0.0:0": false, ":0": false, "192.0.2.1:6379": false, "redis.example:6379": false, "127.0.0.1": false, "[::]:0": false,
	} {
		err := checkLoopback(addr)
		if bad, isBad := errors.AsType[*invalid.Error](err); (err == nil) != ok || isBad == ok || isBad && bad.Problems[0].Field != "addr" {
			t.Errorf("%s: %v", addr, err)
		}
	}
	if s, err := Start("0.0.0.0:0"); err == nil {
		s.Stop()
		t.Error("every address was opened")
	}
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	if _, err := Start(started(t).Addr()); err == nil {
		t.Error("two servers on one port")
	}
}

func TestStopLeavesNoGoroutine(t *testing.T) {
	t.Parallel()
	label := t.Name()
	// Goroutines inherit the labels of the one that starts them, so those of other
	// tests do not count.
	pprof.Do(t.Context(), pprof.Labels("test", label), func(ctx context.Context) {
		s := started(t)
		blocked := make(chan error, 1)
		c := connect(t, s.URL())
		go func() { blocked <- c.BLPop(ctx, time.Minute, "nothing").Err() }()
		eventually(t, "a client waits", func() bool { return s.redis.CommandCount() > 0 && s.redis.CurrentConnectionCount() > 0 })
		if running(t, label, "passTime") != 1 || running(t, label, "miniredis") < 2 {
			t.Error("the server's goroutines are not counted")
		}
		s.Stop()
		s.Stop()
		if err := <-blocked; err == nil {
			t.Error("a blocked client was answered")
		}
		if err := connect(t, s.URL()).Ping(ctx).Err(); err == nil {
			t.Error("a stopped server answers")
		}
	})
	eventually(t, "all goroutines of the server end", func() bool {
		return running(t, label, "miniredis")+running(t, label, "passTime") == 0
	})
}

// running counts the kinds of labelled goroutines that are in a certain function or
// package.
func running(t *testing.T, label, where string) int {
	t.Helper()
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		t.Fatal(err)
	}
	count := 0
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(stack, label) && strings.Contains(stack, where) {
			count++
		}
	}
	return count
}
