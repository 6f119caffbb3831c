package jobs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// The kinds of a [RedisLayout].
const (
	RedisSingle   = "single"
	RedisSentinel = "sentinel"
	RedisCluster  = "cluster"
)

// RedisLayout is which servers an address of Redis has led to.
type RedisLayout struct {
	Kind string // [RedisSingle], [RedisSentinel] or [RedisCluster]
	// Primaries take what is written: one, or those of a cluster, by address.
	Primaries []RedisNode
	Replicas  int // that are connected
	// Unverified says that TLS is used and the server's certificate is not looked at.
	Unverified bool

	// Name is the primary's for the sentinels; Sentinels are the configured ones, SentinelsUp those that
	// answer and name the same primary. Quorum says why they could not agree on a new one, if they could not.
	Name                   string
	Sentinels, SentinelsUp int
	Quorum                 string

	// Missing are nodes of a cluster that the others do not reach; Unserved counts hash slots without a node.
	Missing  []string
	Unserved int
}

// RedisNode is a server and what it says about itself.
type RedisNode struct {
	Addr string // host:port, or the path of a socket
	RedisFacts
	Err error // why it says nothing
}

// Layout asks which servers there are and each primary about itself. It changes
// nothing. An error means that nobody could say; servers that do not answer are
// in the layout.
func (r Redis) Layout(ctx context.Context) (RedisLayout, error) {
	l, err := RedisLayout{}, error(nil)
	switch client := r.Client.(type) {
	case *redis.ClusterClient:
		l, err = clusterLayout(ctx, client)
	default:
		node := RedisNode{}
		node.RedisFacts, node.Err = factsOf(ctx, client)
		l = RedisLayout{Kind: RedisSingle, Primaries: []RedisNode{node}}
		if c, ok := client.(*redis.Client); ok {
			l.Primaries[0].Addr = c.Options().Addr
		}
		if r.sentinels != nil {
			err = r.sentinels.describe(ctx, &l)
		}
	}
	l.Unverified = r.unverified
	return l, err
}

// sentinels are who knows the primary, and how to ask them.
type sentinels struct {
	primary string
	addrs   []string
	options redis.Options // without an address
}

// sentinelAnswer is what one of them says.
type sentinelAnswer struct {
	primary  string // host:port
	replicas int    // that are up
	quorum   string
	err      error
}

func (s *sentinels) describe(ctx context.Context, l *RedisLayout) error {
	answers := make([]sentinelAnswer, len(s.addrs))
	var wg sync.WaitGroup
	for i, addr := range s.addrs {
		wg.Go(func() { answers[i] = s.ask(ctx, addr) })
	}
	wg.Wait()
	l.Kind, l.Name, l.Sentinels = RedisSentinel, s.primary, len(s.addrs)
	var first *sentinelAnswer
	var errs []error
	for i, a := range answers {
		if a.err != nil {
			errs = append(errs, a.err)
			continue
		}
		if first == nil {
			first = &answers[i]
		}
		if a.primary == first.primary {
			l.SentinelsUp++
		}
	}
	if first == nil {
		return fmt.Errorf("ask the sentinels: %w", errors.Join(errs...))
	}
	l.Primaries[0].Addr, l.Replicas, l.Quorum = first.primary, first.replicas, first.quorum
	return nil
}

func (s *sentinels) ask(ctx context.Context, addr string) (a sentinelAnswer) {
	o := s.options
	o.Addr = addr
	client := redis.NewSentinelClient(&o)
	defer client.Close()
	primary, err := client.GetMasterAddrByName(ctx, s.primary).Result()
	if errors.Is(err, redis.Nil) || err == nil && len(primary) != 2 {
		err = fmt.Errorf("it knows no primary %s", s.primary)
	}
	if err != nil {
		a.err = fmt.Errorf("sentinel %s: %w", addr, err)
		return a
	}
	a.primary = net.JoinHostPort(primary[0], primary[1])
	if err := client.CkQuorum(ctx, s.primary).Err(); err != nil {
		a.quorum = err.Error()
	}
	replicas, _ := client.Replicas(ctx, s.primary).Result() // only counted
	for _, r := range replicas {
		if !strings.Contains(r["flags"], "down") && !strings.Contains(r["flags"], "disconnected") {
			a.replicas++
		}
	}
	return a
}

// clusterSlots is how many hash slots a cluster deals out.
const clusterSlots = 16384

func clusterLayout(ctx context.Context, client *redis.ClusterClient) (RedisLayout, error) {
	l := RedisLayout{Kind: RedisCluster}
	text, err := client.ClusterNodes(ctx).Result()
	if err != nil {
		return l, fmt.Errorf("ask for the nodes of the cluster: %w", err)
	}
	l.readNodes(text)
	info, err := client.ClusterInfo(ctx).Result()
	if err != nil {
		return l, fmt.Errorf("ask for the state of the cluster: %w", err)
	}
	l.Unserved = clusterSlots - int(number(infoValues(info)["cluster_slots_ok"]))
	var mu sync.Mutex
	err = client.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		node := RedisNode{Addr: c.Options().Addr}
		node.RedisFacts, node.Err = factsOf(ctx, c)
		mu.Lock()
		defer mu.Unlock()
		l.Primaries = append(l.Primaries, node)
		return nil
	})
	if err != nil {
		return l, fmt.Errorf("ask the nodes of the cluster: %w", err)
	}
	slices.SortFunc(l.Primaries, func(a, b RedisNode) int { return strings.Compare(a.Addr, b.Addr) })
	return l, nil
}

// readNodes reads CLUSTER NODES: id, address@bus, flags, primary, ping, pong, epoch,
// link state, slots.
func (l *RedisLayout) readNodes(text string) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			continue
		}
		addr, _, _ := strings.Cut(fields[1], "@")
		flags := strings.Split(fields[2], ",")
		gone := slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, "fail") || f == "noaddr" })
		switch {
		case gone || fields[7] != "connected":
			l.Missing = append(l.Missing, addr)
		case slices.Contains(flags, "slave"):
			l.Replicas++
		}
	}
	slices.Sort(l.Missing)
}
