package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/count"
)

// Nothing that is wrong with Redis endangers a law (L9), so nothing here is a danger.

func askRedis(ctx context.Context, d *doctor) (finding, error) {
	if d.redisErr != nil {
		return warning(d.withoutSecrets(d.redisErr), "speed: no bell rings and no lease is given; jobs wait in PostgreSQL until Redis is back",
			"start Redis, or set REDIS_URL to the one that the workers use"), d.redisErr
	}
	took, err := d.redis.Latency(ctx)
	if err != nil {
		return finding{}, err
	}
	found := "answers in " + approximately(took)
	if took > d.limits.latency {
		return warning(found, "speed: every job is rung for and leased through Redis", "run Redis near the workers"), nil
	}
	return fine("%s", found), nil
}

func askNodes(_ context.Context, d *doctor) (finding, error) {
	l, err := d.layout()
	if err != nil {
		return finding{}, err
	}
	return judgeNodes(l), nil
}

// judgeNodes says which servers REDIS_URL has led to.
func judgeNodes(l jobs.RedisLayout) finding {
	f := finding{}
	switch l.Kind {
	case jobs.RedisSentinel:
		f = judgeSentinels(l)
	case jobs.RedisCluster:
		f = judgeCluster(l)
	default:
		f = fine("one server, %s", l.Primaries[0].Addr)
	}
	if l.Unverified && f.Grade == gradeOK {
		return warning(f.Found+"; its certificate is not looked at (skip_verify=true)",
			"nothing that a law says; but whoever is in between can read the password and forge bells and leases", "name the authority with ca=FILE in REDIS_URL instead")
	}
	return f
}

func judgeSentinels(l jobs.RedisLayout) finding {
	found := fmt.Sprintf("primary %s (%s), %s, %d of %s", l.Primaries[0].Addr, l.Name, count.Of(l.Replicas, "replica"), l.SentinelsUp, count.Of(l.Sentinels, "sentinel"))
	const slower = "speed: when the primary fails nobody takes its place; jobs wait in PostgreSQL until it is back"
	switch {
	case l.Quorum != "" || 2*l.SentinelsUp <= l.Sentinels:
		return warning(strings.TrimSuffix(found+" answer: "+oneLine(l.Quorum), ": "), slower, "start sentinels until their quorum and majority can be reached")
	case l.SentinelsUp < l.Sentinels:
		return warning(found+" answer", "nothing yet: the others know the primary", "start the missing ones, or take them out of REDIS_URL")
	case l.Replicas == 0:
		return warning(found, slower, "start a replica")
	}
	return fine("%s", found)
}

func judgeCluster(l jobs.RedisLayout) finding {
	var addrs []string
	for _, n := range l.Primaries {
		addrs = append(addrs, n.Addr)
	}
	found := fmt.Sprintf("cluster of %s (%s), %s", count.Of(len(addrs), "primary node"), strings.Join(addrs, ", "), count.Of(l.Replicas, "replica"))
	if len(l.Missing) > 0 {
		found += "; missing: " + strings.Join(l.Missing, ", ")
	}
	switch {
	case l.Unserved > 0:
		return warning(fmt.Sprintf("%s; %s of 16384 have no node", found, count.Of(l.Unserved, "hash slot")),
			"speed: leases and bells of those (of all, with cluster-require-full-coverage) are refused; jobs wait in PostgreSQL until the node is back", "start the missing nodes")
	case len(l.Missing) > 0:
		return warning(found, "nothing yet: the others have taken over", "start the missing nodes, or CLUSTER FORGET them")
	}
	return fine("%s", found)
}

// judgeEach judges every primary; the answer is the worst of what was found.
func judgeEach(nodes []jobs.RedisNode, judge func(jobs.RedisFacts) finding) (finding, error) {
	var worst finding
	var all []string
	for _, n := range nodes {
		if n.Err != nil {
			return finding{}, n.Err
		}
		f := judge(n.RedisFacts)
		if len(nodes) > 1 {
			f.Found = n.Addr + ": " + f.Found
		}
		all = append(all, f.Found)
		if worst.Grade == "" || worst.Grade == gradeOK {
			worst = f
		}
	}
	if worst.Grade == gradeOK {
		worst.Found = strings.Join(all, "; ")
	}
	return worst, nil
}

func judgeRedisVersion(f jobs.RedisFacts) finding {
	switch f.Server {
	case "miniredis":
		return fine("the one inside `fenceline up`: for one machine and for trying out")
	case "redis":
		if before(f.Version, 6, 2) {
			return warning("Redis "+f.Version, "speed: the task queue is made for Redis 6.2 and newer, and bells may fail", "move to a newer Redis")
		}
	}
	return fine("%s %s", f.Server, f.Version)
}

// before compares the first two numbers of a version; one that cannot be read is not before any.
func before(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	first, err1 := strconv.Atoi(parts[0])
	second, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (first < major || first == major && second < minor)
}

func judgeRole(f jobs.RedisFacts) finding {
	if f.Role == "slave" || f.Role == "replica" {
		return warning("a replica, which takes no writes", "speed: no bell can be rung and no lease be given", "let REDIS_URL name the primary")
	}
	return fine("a primary")
}

func judgeMemory(f jobs.RedisFacts) finding {
	used := bytesText(uint64(f.UsedMemory)) + " in use"
	if f.MaxMemory > 0 {
		used += ", at most " + bytesText(uint64(f.MaxMemory))
	}
	if f.Policy != "" && f.Policy != "noeviction" {
		return warning("maxmemory-policy is "+f.Policy+"; "+used,
			"speed: when the memory is full, leases and bells are dropped: work is done twice or begins late", "CONFIG SET maxmemory-policy noeviction, also in redis.conf")
	}
	if f.MaxMemory > 0 && f.UsedMemory > f.MaxMemory/10*9 {
		return warning(used, "speed: when the memory is full, no bell can be rung and no lease be given", "raise maxmemory, or find out what else is kept there")
	}
	if f.Policy == "" {
		return fine("it does not say what it drops when it is full; leases and bells are all there is to lose")
	}
	return fine("noeviction; %s", used)
}

func judgePersistence(f jobs.RedisFacts) finding {
	switch {
	case f.AppendOnly:
		return fine("appends to a file; not needed (L9)")
	case f.Save:
		return fine("saves now and then; not needed (L9)")
	}
	return fine("keeps nothing on disk; nothing is needed (L9)")
}

func askRedisClock(ctx context.Context, d *doctor) (finding, error) {
	ahead, within, err := d.redis.Clock(ctx, d.now)
	if err != nil {
		return finding{}, err
	}
	return d.judgeClock("Redis", ahead, within), nil
}

// bytesText is a size as people say it.
func bytesText(n uint64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n)/1000, 0
	for size >= 999.95 && unit < len(units)-1 {
		size, unit = size/1000, unit+1
	}
	return fmt.Sprintf("%.1f %cB", size, units[unit])
}
