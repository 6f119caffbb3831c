package redistest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Group is several servers that belong together: a primary and a replica with
// their sentinels, or a cluster. It is for one test and ends with it.
type Group struct {
	// Nodes hold data: primary and replica as they began, or the nodes of a cluster, all primaries.
	Nodes []*Redis
	// Sentinels watch over Nodes; none in a cluster.
	Sentinels []*Redis
	conf      config
	// independent servers are no cluster.
	independent bool
}

// PrimaryName is how sentinels call the primary.
const PrimaryName = "fenceline"

// URL is the address as jobs.OpenRedis takes it.
func (g *Group) URL() string {
	if g.independent {
		return g.conf.url("redlock", addresses(g.Nodes), "/0", nil)
	}
	if len(g.Sentinels) == 0 {
		return g.conf.url("redis-cluster", addresses(g.Nodes), "", nil)
	}
	query := url.Values{}
	if g.conf.password != "" {
		query.Set("sentinel_password", g.conf.password)
	}
	return g.conf.url("redis-sentinel", addresses(g.Sentinels), "/"+PrimaryName+"/0", query)
}

func addresses(servers []*Redis) string {
	list := make([]string, len(servers))
	for i, r := range servers {
		list[i] = r.Addr()
	}
	return strings.Join(list, ",")
}

// Kill ends every server that holds data.
func (g *Group) Kill() {
	for _, r := range g.Nodes {
		r.Kill()
	}
}

// Pause freezes every server that holds data.
func (g *Group) Pause(t testing.TB) {
	t.Helper()
	for _, r := range g.Nodes {
		r.Pause(t)
	}
}

// Resume lets them go on.
func (g *Group) Resume(t testing.TB) {
	t.Helper()
	for _, r := range g.Nodes {
		r.Resume(t)
	}
}

// Sentinel starts a primary, a replica and three sentinels that call a primary
// dead when it was silent for so long.
func Sentinel(t testing.TB, silence time.Duration, options ...Option) *Group {
	t.Helper()
	g := &Group{conf: configure(t, options)}
	primary := own(t, &Redis{conf: g.conf})
	replica := own(t, &Redis{conf: g.conf, extra: []string{"--replicaof", "127.0.0.1 " + strconv.Itoa(primary.port)}})
	g.Nodes = []*Redis{primary, replica}
	text := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 2\nsentinel down-after-milliseconds %[1]s %[3]d\nsentinel failover-timeout %[1]s %[4]d\n",
		PrimaryName, primary.port, silence.Milliseconds(), 3*silence.Milliseconds())
	if p := g.conf.password; p != "" {
		text += fmt.Sprintf("sentinel auth-pass %s %q\nrequirepass %q\n", PrimaryName, p, p)
	}
	for range 3 {
		g.Sentinels = append(g.Sentinels, own(t, &Redis{conf: g.conf, sentinel: text}))
	}
	await(t, "the sentinels know each other and the replica", func() bool {
		for _, s := range g.Sentinels {
			m := pairs(s.Do(t, "SENTINEL", "MASTER", PrimaryName))
			if m["num-slaves"] != "1" || m["num-other-sentinels"] != "2" || m["flags"] != "master" {
				return false
			}
		}
		return strings.Contains(fmt.Sprint(primary.Do(t, "INFO", "replication")), "state=online")
	})
	return g
}

// Primary is the server that the first sentinel calls the primary now.
func (g *Group) Primary(t testing.TB) *Redis {
	t.Helper()
	answer, ok := g.Sentinels[0].Do(t, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", PrimaryName).([]any)
	if !ok || len(answer) != 2 {
		t.Fatalf("the sentinel answers %v", answer)
	}
	return g.at(t, net.JoinHostPort(fmt.Sprint(answer[0]), fmt.Sprint(answer[1])))
}

func (g *Group) at(t testing.TB, addr string) *Redis {
	t.Helper()
	for _, r := range g.Nodes {
		if r.Addr() == addr {
			return r
		}
	}
	t.Fatalf("nobody is at %s", addr)
	return nil
}

// busOffset is how far the port for the other nodes is from that for clients.
const busOffset = 10_000

// Cluster starts three primaries without replicas, which share the hash slots. A
// node that is silent for so long counts as failed, and then the whole cluster
// refuses work.
func Cluster(t testing.TB, silence time.Duration, options ...Option) *Group {
	t.Helper()
	g := &Group{conf: configure(t, options)}
	const nodes, slots = 3, 16384
	for i := range nodes {
		r := own(t, &Redis{conf: g.conf, extra: []string{"--cluster-enabled", "yes", "--cluster-node-timeout", strconv.FormatInt(silence.Milliseconds(), 10)}})
		r.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		add := []any{"CLUSTER", "ADDSLOTS"}
		for slot := i * slots / nodes; slot < (i+1)*slots/nodes; slot++ {
			add = append(add, slot)
		}
		r.Do(t, add...)
		g.Nodes = append(g.Nodes, r)
	}
	for _, r := range g.Nodes[1:] {
		r.Do(t, "CLUSTER", "MEET", "127.0.0.1", g.Nodes[0].port, g.Nodes[0].port+busOffset)
	}
	g.AwaitCluster(t)
	return g
}

// AwaitCluster returns when every node says that all is well with the cluster.
func (g *Group) AwaitCluster(t testing.TB) {
	t.Helper()
	await(t, "the cluster is whole", func() bool {
		for _, r := range g.Nodes {
			info := fmt.Sprint(r.Do(t, "CLUSTER", "INFO"))
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:3") || !strings.Contains(info, "cluster_slots_ok:16384") {
				return false
			}
		}
		return true
	})
}

// NodeOf is the node of a cluster that holds a key.
func (g *Group) NodeOf(t testing.TB, key string) *Redis {
	t.Helper()
	slot, _ := g.Nodes[0].Do(t, "CLUSTER", "KEYSLOT", key).(int64)
	ranges, _ := g.Nodes[0].Do(t, "CLUSTER", "SLOTS").([]any)
	for _, r := range ranges {
		entry := r.([]any)
		if slot >= entry[0].(int64) && slot <= entry[1].(int64) {
			node := entry[2].([]any)
			return g.at(t, net.JoinHostPort(fmt.Sprint(node[0]), fmt.Sprint(node[1])))
		}
	}
	t.Fatalf("nobody has slot %d", slot)
	return nil
}

// pairs are the names and values of an answer in either version of the protocol.
func pairs(answer any) map[string]string {
	m := map[string]string{}
	switch v := answer.(type) {
	case map[any]any:
		for name, value := range v {
			m[fmt.Sprint(name)] = fmt.Sprint(value)
		}
	case []any:
		for i := 0; i+1 < len(v); i += 2 {
			m[fmt.Sprint(v[i])] = fmt.Sprint(v[i+1])
		}
	}
	return m
}

func await(t testing.TB, what string, yes func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*startTimeout)
	defer cancel()
	for !yes() {
		if !pause(ctx) {
			t.Fatalf("it never came to this: %s", what)
		}
	}
}

// Independent starts servers that know nothing of each other, as Redlock wants them.
func Independent(t testing.TB, n int, options ...Option) *Group {
	t.Helper()
	g := &Group{conf: configure(t, options), independent: true}
	for range n {
		g.Nodes = append(g.Nodes, own(t, &Redis{conf: g.conf}))
	}
	return g
}
