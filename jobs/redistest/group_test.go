package redistest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Whatever the options, the servers come up and stand as they say.
func TestGroups(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]Option{"plain": nil, "password and TLS": {Password("pass word"), TLS()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Server(t, options...)
			if got := s.Do(t, "PING"); got != "PONG" {
				t.Errorf("%v", got)
			}
			g := Sentinel(t, time.Second, options...)
			old := g.Primary(t)
			if old != g.Nodes[0] {
				t.Error("the primary is not the first")
			}
			old.Kill()
			await(t, "the replica is primary", func() bool { return g.Primary(t) == g.Nodes[1] })
			await(t, "it takes writes", func() bool {
				return strings.Contains(fmt.Sprint(g.Nodes[1].Do(t, "INFO", "replication")), "role:master")
			})
			c := Cluster(t, 5*time.Second, options...)
			node := c.NodeOf(t, "{a}x")
			node.Do(t, "SET", "{a}x", "1")
			node.Kill()
			node.Restart(t)
			c.AwaitCluster(t)
			if c.NodeOf(t, "{a}x") != node || node.Do(t, "EXISTS", "{a}x") != int64(0) {
				t.Error("after a restart the node has other slots or old keys")
			}
		})
	}
}
