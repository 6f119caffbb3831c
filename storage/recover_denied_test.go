package storage_test

import (
	"context"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenceline/fenceline/storage/files"
)

// nobody is a user who owns nothing. Root reads everything, so whoever is to be denied something is somebody else.
const nobody = 65534

// recoversAsNobody recovers in a process of another user and answers what it said.
func (h *harmed) recoversAsNobody(dir, location string) string {
	h.w.t.Helper()
	program := filepath.Join(dir, "recover.test")
	h.w.must(copyFile(os.Args[0], program)) // it lies where only its owner may look
	ctx, cancel := context.WithTimeout(h.w.ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-test.run=^TestRecoverChild$", "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "FENCELINE_TEST_RECOVER_AT=never", "FENCELINE_TEST_DATABASE="+h.w.url, "FENCELINE_TEST_FILES="+location)
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	said, err := cmd.CombinedOutput()
	if err == nil {
		h.w.t.Errorf("it ended well: %s", said)
	}
	return string(said)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer out.Close()
	_, err = io.Copy(out, in)
	return err
}

// A folder that may not be read is not a folder that holds nothing, and what lies in it is not lost.
func TestRecoverInAFolderThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		what func(h *harmed) string // below the root
		mode os.FileMode
	}{
		"an export":                      {func(h *harmed) string { return h.jobs["e"].ExportID.String() }, 0o700},
		"an export's names only":         {func(h *harmed) string { return h.jobs["e"].ExportID.String() }, 0o744},
		"an export without its names":    {func(h *harmed) string { return h.jobs["e"].ExportID.String() }, 0o711},
		"an attempt":                     {func(h *harmed) string { return place(h.jobs["e"], h.at["e"]).String() }, 0o700},
		"an attempt's names only":        {func(h *harmed) string { return place(h.jobs["new"], h.at["new"]).String() }, 0o744},
		"a manifest":                     {func(h *harmed) string { return place(h.jobs["new"], h.at["new"]).String() + "/" + files.ManifestName }, 0o600},
		"a file":                         {func(h *harmed) string { return place(h.jobs["new"], h.at["new"]).String() + "/1-orders.csv" }, 0o600},
		"the mark":                       {func(*harmed) string { return "FENCELINE.json" }, 0o600},
		"the root, which takes no files": {func(*harmed) string { return "." }, 0o755},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "fenceline-denied-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			root := filepath.Join(dir, "files")
			h := newHarmed(t, shelf{root})
			h.w.must(os.Chmod(dir, 0o755))
			open := func() error { return chmodAll(root) }
			h.w.must(open())
			denied := filepath.Join(root, c.what(h))
			mode := c.mode
			if os.Getuid() != 0 { // we are the owner ourselves
				mode = mode&0o7<<6 | mode&0o77
			}
			h.w.must(os.Chmod(denied, mode))
			said := h.recoversAsNobody(dir, root)
			if !strings.Contains(said, "permission denied") || name != "the root, which takes no files" && !strings.Contains(said, filepath.Base(denied)) {
				t.Errorf("it said %s", said)
			}
			h.w.must(open())
			h.staysClosed()
			h.finishes()
		})
	}
}

// chmodAll lets everybody read and write below a folder.
func chmodAll(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o666)
		if d.IsDir() {
			mode = 0o777
		}
		return os.Chmod(path, mode)
	})
}

// A folder in the place of a file, as a botched restore leaves it, can be opened and not read (EISDIR): that is
// reported as what it is, and does not count as a file that is missing.
func TestRecoverMeetsAFolderInThePlaceOfAFile(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "files")
	h := newHarmed(t, shelf{root})
	manifest := filepath.Join(root, place(h.jobs["new"], h.at["new"]).String(), files.ManifestName)
	raw, err := os.ReadFile(manifest)
	h.w.must(err)
	h.w.must(os.Remove(manifest))
	h.w.must(os.Mkdir(manifest, 0o755))
	h.breaksOff("", nil, "read the manifest of", "is a directory")
	h.w.must(os.Remove(manifest))
	h.w.must(os.WriteFile(manifest, raw, 0o600))
	h.finishes()
}

// Without its root the store is gone: it is not empty, and its files are not lost one by one.
func TestRecoverWhileTheWholeFolderGoes(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"raise", "adopt", "lost"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			root := filepath.Join(t.TempDir(), "files")
			h := newHarmed(t, shelf{root})
			h.breaksOff(step, func() {
				h.w.must(os.CopyFS(root+".away", os.DirFS(root)))
				h.w.must(os.RemoveAll(root))
			}, "no such")
			h.w.must(os.RemoveAll(root))
			h.w.must(os.Rename(root+".away", root))
			h.f = shelf{root}.open(h.w)
			h.staysClosed()
			h.finishes()
		})
	}
}
