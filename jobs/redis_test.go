package jobs_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
)

// What is wrong with an address is said by the part, and never with the password.
func TestBadRedisAddresses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for address, says := range map[string]string{
		"":                                                           "scheme",
		"localhost:6379":                                             "scheme",
		":s3cret@host:6379":                                          "scheme",
		"redsi://:s3cret@host":                                       "the scheme must be",
		"s3cret://host":                                              "the scheme must be",
		"rediss-unix://:s3cret@/x":                                   "the scheme must be",
		"redis://:s3cret@":                                           "host 1",
		"redis://:s3cret@host:":                                      "host 1",
		"redis://:s3cret@host:99999":                                 "host 1",
		"redis://:s3cret@host:port":                                  "host 1",
		"redis://:s3cret@::1:6379":                                   "host 1",
		"redis://:s3cret@a,b":                                        "several hosts",
		"redis://:s3cret@a/b/c":                                      "database",
		"redis://:s3cret@a/1?db=2":                                   "database",
		"redis://:s3cret@a/-1":                                       "database",
		"redis://:s3/cret@host":                                      "%2F",
		"redis://:s3cret%zz@host":                                    "%25",
		"redis://:s3cret@host/%zz":                                   "%25",
		"redis://:s3cret@host/0#x":                                   "#",
		"redis://:s3cret@host?a=%zz":                                 "parameters",
		"redis://:s3cret@host?pass=s3cret":                           "parameter pass",
		"redis://host?password=s3cret":                               "parameter password",
		"redis://host?pool_size=s3cret":                              "parameter pool_size",
		"redis://host?pool_size=1&pool_size":                         "parameter pool_size",
		"redis://:s3cret@h?read_timeout=5s":                          "read_timeout",
		"redis://:s3cret@h?max_retries=3":                            "max_retries",
		"redis://:s3cret@h?skip_verify=true":                         "rediss",
		"redis://:s3cret@h?ca=/x":                                    "rediss",
		"rediss://:s3cret@h?skip_verify=1":                           "skip_verify",
		"rediss://:s3cret@h?cert=/x":                                 "cert and key",
		"rediss://:s3cret@h?ca=/nowhere":                             "/nowhere",
		"rediss://:s3cret@h?ca=" + file:                              "no certificate",
		"rediss://:s3cret@h?ca=" + file + "&skip_verify=true":        "skip_verify",
		"rediss://:s3cret@h?cert=" + file + "&key=" + file:           "cert and key",
		"redis-sentinel://:s3cret@a,b":                               "name of the primary",
		"redis-sentinel://:s3cret@a,:1/p":                            "host 2",
		"redis-sentinel://:s3cret@a/p/x":                             "database",
		"redis://:s3cret@a?sentinel_password=s3cret":                 "redis-sentinel://",
		"redis-cluster://:s3cret@a,b/1":                              "database 0",
		"redis-cluster://:s3cret@a,,b":                               "host 2",
		"redis-cluster://:s3cret@a?sentinel_user=x":                  "redis-sentinel://",
		"unix://:s3cret@host/run/redis.sock":                         "path of a socket",
		"unix://:s3cret@":                                            "path of a socket",
		"rediss-sentinel://:s3cret@a/p?sentinel_password=s3cret&x=1": "parameter x",
	} {
		_, err := jobs.OpenRedis(t.Context(), address, "x")
		if _, ok := errors.AsType[*invalid.Error](err); !ok || !strings.Contains(err.Error(), "REDIS_URL") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", address, err, says)
		}
		if err != nil && (strings.Contains(err.Error(), "s3c") || strings.Contains(err.Error(), "s3/c")) {
			t.Errorf("%s: the refusal gives the secret away: %v", address, err)
		}
	}
}

// An address that is right but leads to nobody gives nothing away either.
func TestRedisThatIsNotThere(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"redis://u:s3cret@127.0.0.1:1/0", "rediss://u:s3cret@127.0.0.1:1/0", "redis-sentinel://u:s3cret@127.0.0.1:1,127.0.0.1:2/p?sentinel_password=s3cret",
		"redis-cluster://u:s3cret@127.0.0.1:1,127.0.0.1:2", "unix:///nowhere/at/all.sock?db=1",
	} {
		if _, err := jobs.OpenRedis(t.Context(), address, "x"); !errors.Is(err, storage.ErrUnreachable) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// The timeouts hold for every kind of client, and the pool follows the concurrency.
func TestRedisClientsAreShortOfPatience(t *testing.T) {
	t.Parallel()
	single := openRedis(t, redistest.Server(t).URL()).Client.(*redis.Client).Options()
	g := redistest.Cluster(t, 5*time.Second)
	cluster := openRedis(t, g.URL()).Client.(*redis.ClusterClient).Options()
	if cluster.MaxRetries != -1 || cluster.MaxRedirects != 2 {
		t.Errorf("a cluster: %d retries, %d redirects", cluster.MaxRetries, cluster.MaxRedirects)
	}
	failover := openRedis(t, redistest.Sentinel(t, 10*time.Second).URL()).Client.(*redis.Client).Options()
	for name, o := range map[string]*redis.Options{
		"single": single, "failover": failover, "cluster": {DialTimeout: cluster.DialTimeout, ReadTimeout: cluster.ReadTimeout, WriteTimeout: cluster.WriteTimeout,
			DialerRetries: cluster.DialerRetries, ContextTimeoutEnabled: cluster.ContextTimeoutEnabled, MaxRetries: 1},
	} {
		if max(o.DialTimeout, o.ReadTimeout, o.WriteTimeout) > 2*time.Second || o.MaxRetries != 1 || o.DialerRetries != 1 || !o.ContextTimeoutEnabled {
			t.Errorf("%s: %+v", name, o)
		}
	}
	for address, want := range map[string]int{redistest.Shared(t).URL(): 112, redistest.Shared(t).URL() + "?pool_size=7": 7} {
		r, err := jobs.OpenRedis(t.Context(), address, "x", jobs.RedisConcurrency(100))
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Client.(*redis.Client).Options().PoolSize; got != want {
			t.Errorf("%s: a pool of %d, want %d", address, got, want)
		}
		_ = r.Client.Close()
	}
}

// A certificate that nobody vouches for is refused, unless it was said that it need not be looked at.
func TestRedisCertificates(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, redistest.TLS(), redistest.Password("a/b c%"))
	openRedis(t, server.URL())
	change := func(name string, values ...string) string {
		u, err := url.Parse(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Del(name)
		for i := 0; i+1 < len(values); i += 2 {
			q.Set(values[i], values[i+1])
		}
		u.RawQuery = q.Encode()
		return u.String()
	}
	for address, says := range map[string]string{
		change("ca"): "certificate", strings.Replace(change("cert"), "key=", "x=", 1): "parameter x",
		change("", "server_name", "elsewhere.example"): "elsewhere.example",
	} {
		if _, err := jobs.OpenRedis(t.Context(), address, "x"); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "a/b") {
			t.Errorf("%s: %v", address, err)
		}
	}
	r := openRedis(t, change("ca", "skip_verify", "true"))
	if l, err := r.Layout(t.Context()); err != nil || !l.Unverified {
		t.Errorf("%+v, %v", l, err)
	}
	openRedis(t, change("", "server_name", "localhost"))
}

func TestRedisAtASocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "r.sock")
	redistest.Server(t, redistest.Socket(path), redistest.Password("a@b"))
	r := openRedis(t, "unix://:a%40b@"+path+"?db=3")
	if o := r.Client.(*redis.Client).Options(); o.Network != "unix" || o.DB != 3 {
		t.Errorf("%s, database %d", o.Network, o.DB)
	}
	if l, err := r.Layout(t.Context()); err != nil || l.Primaries[0].Addr != path {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestLayoutOfRedis(t *testing.T) {
	t.Parallel()
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		server := redistest.Server(t)
		l, err := openRedis(t, server.URL()).Layout(t.Context())
		if err != nil || l.Kind != jobs.RedisSingle || len(l.Primaries) != 1 || l.Primaries[0].Addr != server.Addr() || l.Primaries[0].Policy != "noeviction" || l.Unverified {
			t.Errorf("%+v, %v", l, err)
		}
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		g := redistest.Sentinel(t, 10*time.Second)
		r := openRedis(t, g.URL())
		l, err := r.Layout(t.Context())
		if err != nil || l.Kind != jobs.RedisSentinel || l.Primaries[0].Addr != g.Nodes[0].Addr() || l.Primaries[0].Role != "master" ||
			l.Name != redistest.PrimaryName || l.Replicas != 1 || l.Sentinels != 3 || l.SentinelsUp != 3 || l.Quorum != "" {
			t.Errorf("%+v, %v", l, err)
		}
		g.Sentinels[2].Kill()
		g.Sentinels[1].Kill()
		l, err = r.Layout(t.Context())
		if err != nil || l.SentinelsUp != 1 || l.Primaries[0].Addr != g.Nodes[0].Addr() {
			t.Errorf("%+v, %v", l, err)
		}
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		g := redistest.Cluster(t, time.Second)
		r := openRedis(t, g.URL())
		g.Nodes[1].Do(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
		l, err := r.Layout(t.Context())
		if err != nil || l.Kind != jobs.RedisCluster || len(l.Primaries) != 3 || l.Replicas != 0 || len(l.Missing) != 0 || l.Unserved != 0 {
			t.Fatalf("%+v, %v", l, err)
		}
		policies := map[string]int{}
		for _, n := range l.Primaries {
			policies[n.Policy]++
		}
		if policies["noeviction"] != 2 || policies["allkeys-lru"] != 1 {
			t.Errorf("%v", policies)
		}
		g.Nodes[2].Kill()
		deadline := time.NewTimer(30 * time.Second)
		defer deadline.Stop()
		for len(l.Missing) == 0 || l.Unserved == 0 {
			if l, err = r.Layout(t.Context()); err != nil {
				t.Log(err)
			}
			select {
			case <-deadline.C:
				t.Fatalf("%+v, %v", l, err)
			default:
			}
		}
		if l.Missing[0] != g.Nodes[2].Addr() || l.Unserved < 5000 {
			t.Errorf("%+v", l)
		}
	})
}
