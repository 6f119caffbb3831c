package main

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/redistest"
	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/storage/files"
	"github.com/fenceline/fenceline/storage/files/s3test"
)

// objects are the paths of all files of a site, which are opened as the program does.
func (s *site) objects(location string) (paths []string) {
	s.t.Helper()
	store, err := storage.Open(s.t.Context(), s.env["DATABASE_URL"], storage.Options{})
	s.must(err)
	defer store.Close()
	id, err := store.Installation(s.t.Context())
	s.must(err)
	f, err := files.Open(s.t.Context(), location, id, store.Uploads())
	s.must(err)
	defer func() { _ = f.Close() }()
	s.must(f.List(s.t.Context(), func(o files.Object) error {
		paths = append(paths, o.Path)
		return nil
	}))
	return paths
}

// blind is a site whose clean-up cannot see what is in use.
type blind struct {
	*site
	proxy *s3test.Proxy // nil without a bucket
}

// A clean-up that cannot read what is in use takes all for garbage. Neither the run nor what tells of it beforehand goes
// on, and each ends with an error.
func TestACleanUpThatCannotSeeWhatIsInUseStops(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		happens func(b *blind)
		says    string
		bucket  bool // only there
	}{
		"no attempt is in the database": {func(b *blind) { b.forgets() }, "the database knows no attempt", false},
		"attempts may not be read":      {func(b *blind) { b.mayNotRead("attempts") }, "permission denied", false},
		"files may not be listed":       {func(b *blind) { b.refuses("ListObjectsV2", s3test.Deny) }, "refuses these credentials", true},
		"the list fails":                {func(b *blind) { b.refuses("ListObjectsV2", s3test.Fail) }, "InternalError", true},
		"another installation's mark":   {func(b *blind) { b.sql("UPDATE fenceline.installation SET id = gen_random_uuid()") }, "does not belong to this database", false},
	} {
		for _, bucket := range []bool{false, true} {
			if c.bucket && !bucket {
				continue
			}
			t.Run(fmt.Sprintf("%s, bucket %t", name, bucket), func(t *testing.T) {
				t.Parallel()
				b := &blind{site: newSite(t, redistest.Shared(t))}
				location := filepath.Join(b.dir, "files")
				if bucket {
					made := s3test.New(t)
					b.proxy = s3test.NewProxy(t, made, nil)
					location = made.URL("site")
					delete(b.env, "FILES_DIR")
					b.env["FILES_URL"] = made.Via(b.proxy.URL, "site", "timeout=1s")
				}
				b.report("one", "SELECT 1 AS id ORDER BY 1\n")
				b.makes("one")
				b.makes("one")
				before := b.objects(location)
				url := b.env["DATABASE_URL"]
				c.happens(b)
				for _, command := range []string{"plan", "run", "audit"} {
					args := []string{"sweep", command}
					if command != "audit" {
						args = append(args, "--sweep-superseded", "0s", "--sweep-quarantine", "0s")
					}
					r := b.run(args...)
					if r.code == exitDone || !strings.Contains(r.err, c.says) {
						t.Errorf("sweep %s: exit %d, want %q\n%s%s", command, r.code, c.says, r.out, r.err)
					}
				}
				if b.env["DATABASE_URL"] = url; c.says == "does not belong to this database" {
					return // nor may we look
				}
				if after := b.objects(location); len(before) < 4 || !slices.Equal(before, after) {
					t.Errorf("there were %q, and there are %q", before, after)
				}
			})
		}
	}
}

func (b *blind) forgets() {
	b.sql("SET session_replication_role = replica; TRUNCATE fenceline.attempts CASCADE")
}

// mayNotRead lets the program be a role that may do all but read a table.
func (b *blind) mayNotRead(table string) {
	b.t.Helper()
	var role string
	b.query(&role, "SELECT 'blind_' || oid FROM pg_database WHERE datname = current_database()")
	b.sql("CREATE ROLE "+role+" LOGIN PASSWORD 'blind'", "GRANT USAGE ON SCHEMA fenceline TO "+role, "GRANT ALL ON ALL TABLES IN SCHEMA fenceline TO "+role,
		"GRANT ALL ON ALL SEQUENCES IN SCHEMA fenceline TO "+role, "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA fenceline TO "+role, "REVOKE SELECT ON fenceline."+table+" FROM "+role)
	u, err := url.Parse(b.env["DATABASE_URL"])
	b.must(err)
	u.User = url.UserPassword(role, "blind")
	b.env["DATABASE_URL"] = u.String()
}

func (b *blind) refuses(operation string, fault s3test.Fault) {
	b.proxy.Judge(func(r *http.Request) s3test.Fault {
		if s3test.Operation(r) == operation {
			return fault
		}
		return s3test.None
	})
}
