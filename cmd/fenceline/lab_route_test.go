//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/jobs/processtest"
	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage/storagetest"
)

// What a service can be reached at besides a plain address: encrypted for a name, by way of others that say where it is, in several parts.
func TestLabCutsAnyAddress(t *testing.T) {
	t.Parallel()
	const calm = 5 * time.Minute // after which a silent server would be called dead
	secret := []redistest.Option{redistest.TLS(), redistest.Password("p/w d")}
	for name, address := range map[string]func(*testing.T) string{
		"redis over TLS":              func(t *testing.T) string { return redistest.Server(t, secret...).URL() },
		"redis behind a socket":       redisBehindASocket,
		"redis by sentinels over TLS": func(t *testing.T) string { return redistest.Sentinel(t, calm, secret...).URL() },
		"redis as a cluster over TLS": func(t *testing.T) string { return redistest.Cluster(t, calm, secret...).URL() },
		"redlock over TLS":            func(t *testing.T) string { return redistest.Independent(t, 3, secret...).URL() },
		"postgres over TLS":           postgresOverTLS,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend, _, _ := strings.Cut(name, " ")
			r := newSite(t, redistest.Shared(t)).labRuns(backend+"="+address(t), "--fault", "cut", "--lease", "3s")
			if !r.Held || len(r.Runs) != 1 || len(r.Runs[0].Faults) != 1 || r.Runs[0].Faults[0].Skipped != "" {
				t.Fatalf("the cut was not played: %+v", r)
			}
			checkStory(t, r.Runs[0], r.Runs[0].Faults[0])
		})
	}
}

func redisBehindASocket(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "redis.sock")
	redistest.Server(t, redistest.Socket(path))
	return "unix://" + path
}

// postgresOverTLS is an address by which the certificate of a server is looked at, and the name in it.
func postgresOverTLS(t *testing.T) string {
	t.Helper()
	made := processtest.NewCertificates(t)
	address := storagetest.Server(t, nil).URL("postgres")
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var dir string
	if err := conn.QueryRow(t.Context(), "SHOW data_directory").Scan(&dir); err != nil {
		t.Fatal(err)
	}
	owner, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{made.Cert: "server.crt", made.Key: "server.key"} { // as its settings name them
		raw, err := os.ReadFile(from)
		if err == nil {
			to = filepath.Join(dir, to)
			err = errors.Join(os.WriteFile(to, raw, 0o600), os.Chown(to, int(owner.Sys().(*syscall.Stat_t).Uid), -1))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range []string{"ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()"} {
		if _, err := conn.Exec(t.Context(), command); err != nil {
			t.Fatal(err)
		}
	}
	address = strings.Replace(address, "sslmode=disable", "sslmode=verify-full&sslrootcert="+made.CA, 1)
	until(t, "it speaks TLS", func() bool {
		secret, err := pgx.Connect(t.Context(), address)
		if err == nil {
			_ = secret.Close(t.Context())
		}
		return err == nil
	})
	return address
}

// Who knows the key is led anywhere; the service's address is what the connection tells, and its failure what an error tells.
func TestLabForwarder(t *testing.T) {
	t.Parallel()
	p, err := startForwarder()
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	socket := filepath.Join(t.TempDir(), "with a space.sock")
	tcp, unix := greet(t, "tcp", "127.0.0.1:0"), greet(t, "unix", socket)
	for _, to := range []net.Addr{tcp, unix} {
		conn, err := p.route().dial(t.Context(), to.Network(), to.String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		heard := make([]byte, 5)
		if _, err := io.ReadFull(conn, heard); err != nil || string(heard) != "hello" || conn.RemoteAddr().String() != to.String() {
			t.Errorf("from %s comes %q, %v, as of %s", to, heard, err, conn.RemoteAddr())
		}
	}
	if _, err := p.route().dial(t.Context(), "unix", socket+".not"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("of an address where nobody is: %v", err)
	}
	if _, err := (labRoute{p.addr(), "hunter2"}).dial(t.Context(), "tcp", tcp.String()); err == nil {
		t.Error("it leads who does not know its key")
	}
	p.cut()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := p.route().dial(ctx, "tcp", tcp.String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the cut it answers %v", err)
	}
}

// greet says hello to whoever connects, and leaves.
func greet(t *testing.T, network, address string) net.Addr {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_, _ = io.WriteString(c, "hello")
			_ = c.Close()
		}
	}()
	return l.Addr()
}

// After the cut neither end learns that the other one has gone, as when packets are lost.
func TestLabProxyCutsGoodbyes(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, first := range []string{"the service", "the holder"} {
		p, err := startForwarder()
		if err != nil {
			t.Fatal(err)
		}
		defer p.close()
		holder, err := p.route().dial(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer holder.Close()
		service, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer service.Close()
		p.cut()
		gone, stays := service, holder
		if first == "the holder" {
			gone, stays = holder, service
		}
		_ = gone.Close()
		_ = stays.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := stays.Read(make([]byte, 1)); !os.IsTimeout(err) {
			t.Errorf("%s has gone, and the other end hears %v", first, err)
		}
	}
}
