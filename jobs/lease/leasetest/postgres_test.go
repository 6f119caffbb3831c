package leasetest_test

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/lease/leasetest"
	"github.com/fenceline/fenceline/storage/localpg"
	"github.com/fenceline/fenceline/storage/storagetest"
)

func TestPostgresLeases(t *testing.T) {
	leasetest.Run(t, leasetest.Backend{
		Open:  jobs.OpenLeaser,
		Start: func(t *testing.T) leasetest.Server { return &postgres{storagetest.Server(t, nil)} },
		Take: func(t *testing.T, s leasetest.Server, o jobs.LeaseOptions, resource string) {
			ask[bool](t, s, `SELECT bool_and(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory'
				AND objid = (hashtextextended($1, 0) & 4294967295)::oid`, o.Prefix+resource)
		},
		Left: func(t *testing.T, s leasetest.Server, _ string) int {
			return ask[int](t, s, "SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory'")
		},
		TTL: 5 * time.Second, Owners: true, Since: true,
	})
}

func ask[T any](t *testing.T, s leasetest.Server, question string, args ...any) (answer T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err == nil {
		defer func() { _ = conn.Close(t.Context()) }()
		err = conn.QueryRow(t.Context(), question, args...).Scan(&answer)
	}
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// postgres is a server of which every process can be stopped.
type postgres struct{ server *localpg.Server }

func (p *postgres) URL() string { return p.server.URL("postgres") }

func (p *postgres) Kill() {
	for _, pid := range p.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended with another one
	}
}

func (p *postgres) Pause(t testing.TB) {
	t.Helper()
	for _, pid := range p.processes() {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *postgres) Resume(testing.TB) {
	for _, pid := range p.processes() {
		_ = syscall.Kill(pid, syscall.SIGCONT) // it may have ended
	}
}

// processes are the server's, the postmaster first, so that it forks no more of them.
func (p *postgres) processes() []int {
	master := p.server.Pid()
	list := []int{master}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		_, rest, _ := strings.Cut(string(stat), ") ") // state, then parent
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(master) {
			list = append(list, pid)
		}
	}
	return list
}
