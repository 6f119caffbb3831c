package main

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceline/fenceline/jobs/redistest"
)

// pool puts a real PgBouncer between the deployment and its database.
func (p *patient) pool(mode string, settings ...string) {
	p.t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		bin = "/usr/sbin/pgbouncer"
	}
	if _, err := os.Stat(bin); err != nil {
		p.t.Fatalf("pgbouncer is missing: install it (Debian: apt-get install pgbouncer; macOS: brew install pgbouncer): %v", err)
	}
	behind, err := url.Parse(p.env["DATABASE_URL"])
	p.must(err)
	password, _ := behind.User.Password()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	p.must(err)
	port := l.Addr().(*net.TCPAddr).Port
	p.must(l.Close())
	conf := filepath.Join(p.t.TempDir(), "pgbouncer.ini")
	p.must(os.WriteFile(conf, fmt.Appendf(nil, `[databases]
* = host=127.0.0.1 port=%s user=%s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = %s
default_pool_size = 5
%s
`, behind.Port(), behind.User.Username(), password, port, mode, strings.Join(settings, "\n")), 0o644))
	cmd := exec.Command(bin, "-q", conf)
	cmd.SysProcAttr = dieWithTest()
	if os.Getuid() == 0 { // which it refuses
		cmd.Args = []string{bin, "-q", "-u", "nobody", conf}
	}
	output := &lines{}
	cmd.Stdout, cmd.Stderr = output, output
	p.must(cmd.Start())
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if p.t.Failed() {
			p.t.Logf("pgbouncer:\n%s", output)
		}
	})
	behind.Host = net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
	until(p.t, "PgBouncer answers", func() bool {
		conn, err := pgx.Connect(p.t.Context(), behind.String())
		if err != nil {
			return false
		}
		return conn.Close(p.t.Context()) == nil
	})
	p.env["DATABASE_URL"] = behind.String()
}

// Behind a pooler everything else can be checked as well, and where it keeps
// sessions there is nothing to say.
func TestDoctorBehindAPooler(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{"transaction": gradeWarning, "session": gradeOK} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t, redistest.Shared(t))
			p.publish("a")
			p.pool(mode, "ignore_startup_parameters = IntervalStyle, bytea_output")
			var names []string
			for _, c := range checks() {
				names = append(names, c.name)
			}
			found := p.examine(nil, names...)
			for name, f := range found {
				switch name {
				case "postgres.fsync", "postgres.full_page_writes", "files.system", "files.space", "files.sync": // the tests' server and machine
				case "postgres.pooler", "postgres.messages":
					if f.Grade != want {
						t.Errorf("%+v", f)
					}
				default:
					if f.Grade != gradeOK {
						t.Errorf("%+v", f)
					}
				}
			}
			if do := found["postgres.pooler"].Do; mode == "transaction" && !strings.Contains(do, "DATABASE_DIRECT_URL") {
				t.Errorf("do %q", do)
			}
			if text := found["postgres.connections"].Found; mode == "transaction" && !strings.Contains(text, "a pooler limits them") {
				t.Errorf("found %q", text)
			}
			if left := p.connect(); left.PgConn().ParameterStatus("server_version") == "" {
				t.Error("the pooler is gone")
			}
		})
	}
}
