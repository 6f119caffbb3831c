package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
)

// ErrNotOurs means that a folder was not probed because nothing says that it
// belongs to this database: what is in it is not ours to touch.
var ErrNotOurs = errors.New("the folder does not carry the mark of this database and was not touched")

// FolderFacts are what can be seen of a files folder without touching it.
type FolderFacts struct {
	Exists bool
	Mode   fs.FileMode
	Owner  int       // user id, -1 where there are none
	Marked uuid.UUID // for which installation; the zero UUID without a mark
	Mark   Mark      // in full
	Holds  string    // a name in an unmarked folder that is not ours, "" when it is empty
}

// LookAt looks at the folder dir. A folder that does not exist is no error.
// Unlike [OpenLocal] it makes and marks nothing.
func LookAt(dir string) (FolderFacts, error) {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return FolderFacts{Owner: -1}, nil
	}
	if err != nil {
		return FolderFacts{}, fmt.Errorf("look at the files folder: %w", err)
	}
	if !info.IsDir() {
		return FolderFacts{}, fmt.Errorf("look at the files folder: %s is not a folder", dir)
	}
	f := FolderFacts{Exists: true, Mode: info.Mode(), Owner: owner(info)}
	raw, err := os.ReadFile(filepath.Join(dir, markerName))
	if errors.Is(err, fs.ErrNotExist) {
		f.Holds, err = stranger(dir)
		return f, err
	}
	if err != nil {
		return f, fmt.Errorf("read %s of the files folder: %w", markerName, err)
	}
	m, err := decodeMark(raw)
	if err != nil {
		return f, fmt.Errorf("read %s of the files folder: %w", markerName, err)
	}
	f.Marked, f.Mark = m.Installation, m
	return f, nil
}

// stranger is a name in the folder that Fenceline did not leave there.
func stranger(dir string) (string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return "", fmt.Errorf("list the files folder: %w", err)
	}
	defer f.Close()
	names, err := f.Readdirnames(16)
	for _, name := range names {
		if !strings.HasPrefix(name, markerTemp) {
			return name, nil
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("list the files folder: %w", err)
	}
	return "", nil
}

// Keeping is what a kind of file system means for files that are to last.
type Keeping int

// The kinds of file systems that are told apart.
const (
	KeepsLocally  Keeping = iota // a disk of this machine, as far as one can see
	KeepsRemotely                // a network file system, or a program that answers for one (FUSE)
	KeepsInMemory                // nothing outlives a restart
	KeepsInLayer                 // a container's own layer, which goes with the container
)

// VolumeFacts are about the file system that a folder lies on.
type VolumeFacts struct {
	System              string // its name, such as ext4; its number in hexadecimal where it has no name here
	Keeping             Keeping
	Free, Size          uint64 // bytes; Free is what a user without special rights may take
	FreeFiles, MaxFiles uint64 // MaxFiles is 0 where the number of files has no limit
}

// LookAtVolume looks at the file system of dir, or of the nearest folder above
// it that exists. [errors.ErrUnsupported] where this program cannot ask.
func LookAtVolume(dir string) (VolumeFacts, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return VolumeFacts{}, err
	}
	for {
		v, err := volume(dir)
		above := filepath.Dir(dir)
		if errors.Is(err, fs.ErrNotExist) && above != dir {
			dir = above
			continue
		}
		if err != nil {
			return v, fmt.Errorf("look at the file system of %s: %w", dir, err)
		}
		return v, nil
	}
}

// keepings tells the file systems that are not simply a disk, by their names.
var keepings = [...]struct {
	keeping Keeping
	systems string
}{
	{KeepsRemotely, " nfs cifs smb smbfs smb2 9p afs afpfs ceph coda fuse macfuse osxfuse fusefs gfs2 gpfs lustre ncp ocfs2 remote virtiofs vboxsf webdav "},
	{KeepsInMemory, " tmpfs ramfs mfs "},
	{KeepsInLayer, " overlay aufs "},
}

// keeping tells how a file system of this name keeps files.
func keeping(system string) Keeping {
	for _, k := range keepings {
		if strings.Contains(k.systems, " "+strings.ToLower(system)+" ") {
			return k.keeping
		}
	}
	return KeepsLocally
}

// ProbeFacts are how a folder behaved. All true is what [Local] needs to commit.
type ProbeFacts struct {
	CreateRefuses bool // O_EXCL on a name that is taken
	Links         bool // link(2) makes a second name
	LinkRefuses   bool // link(2) onto a name that is taken, whose file stays as it was
	Renames       bool
	Synced        time.Duration // how long fsync of a small file and of its folder took
	Problem       string        // what the first thing that did not work said
}

// probePrefix begins like the names that [OpenLocal] and [Local.Empty] pass
// over, so that a probe disturbs nobody who starts or cleans up meanwhile.
const probePrefix = markerTemp + "doctor-"

// probeLeftOver is when a probe's folder was left by one that was killed.
const probeLeftOver = time.Hour

// Probe tries in a folder of its own below dir what writing needs, and removes
// it again. Only a folder that is marked for the installation is touched
// ([ErrNotOurs]). The error is about the folder as a whole: nothing can be
// written in it, or what was written could not be removed.
func Probe(dir string, installation uuid.UUID) (ProbeFacts, error) {
	return probe(dir, installation, (*os.Root).Link)
}

// probe takes the call on which everything rests as an argument: a file system
// without it is not at hand everywhere.
func probe(dir string, installation uuid.UUID, link func(r *os.Root, old, new string) error) (found ProbeFacts, err error) {
	seen, err := LookAt(dir)
	if err != nil {
		return found, err
	}
	if !seen.Exists || installation == uuid.Nil || seen.Marked != installation {
		return found, ErrNotOurs
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return found, fmt.Errorf("open the files folder: %w", err)
	}
	l := &Local{root: root, dir: dir}
	defer l.Close()
	l.removeOldProbes()
	in := probePrefix + uuid.NewString()
	if err := root.Mkdir(in, 0o700); err != nil {
		return found, fmt.Errorf("make a folder in the files folder: %w", err)
	}
	defer func() {
		if gone := root.RemoveAll(in); gone != nil {
			err = errors.Join(err, fmt.Errorf("remove the probe %s: %w", in, gone))
		}
	}()
	if err := l.try(in, link, &found); err != nil {
		found.Problem = err.Error()
	}
	return found, nil
}

// removeOldProbes clears up after probes that were killed. What it cannot
// remove the probe itself will complain about.
func (l *Local) removeOldProbes() {
	names, _ := l.names(".", -1)
	for _, name := range names {
		info, err := l.root.Lstat(name)
		if strings.HasPrefix(name, probePrefix) && err == nil && info.IsDir() && time.Since(info.ModTime()) > probeLeftOver {
			_ = l.root.RemoveAll(name)
		}
	}
}

// try fills in what works until something does not.
func (l *Local) try(in string, link func(r *os.Root, old, new string) error, found *ProbeFacts) error {
	one, two, three := path.Join(in, "one"), path.Join(in, "two"), path.Join(in, "three")
	start := time.Now()
	if err := errors.Join(l.put(one, "one"), l.syncDir(in)); err != nil {
		return err
	}
	found.Synced = time.Since(start)
	if err := l.put(two, "two"); err != nil {
		return err
	}
	if err := l.put(one, "again"); !errors.Is(err, fs.ErrExist) || !l.holds(one, "one") {
		return fmt.Errorf("a file was created under a name that was taken (%v)", err)
	}
	found.CreateRefuses = true
	if err := link(l.root, one, three); err != nil || !l.holds(three, "one") {
		return fmt.Errorf("link: %w", orUntrue(err))
	}
	found.Links = true
	if err := link(l.root, one, two); !errors.Is(err, fs.ErrExist) || !l.holds(two, "two") {
		return fmt.Errorf("a link was made under a name that was taken (%v)", err)
	}
	found.LinkRefuses = true
	if err := l.root.Rename(two, three); err != nil || !l.holds(three, "two") {
		return fmt.Errorf("rename: %w", orUntrue(err))
	}
	found.Renames = true
	return nil
}

// orUntrue is for calls that say that they worked and did not.
func orUntrue(err error) error {
	if err == nil {
		return errors.New("it reported success, but the name holds something else")
	}
	return err
}

// put writes and syncs a new file.
func (l *Local) put(name, text string) error {
	f, err := l.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func (l *Local) holds(name, text string) bool {
	raw, err := l.root.ReadFile(name)
	return err == nil && bytes.Equal(raw, []byte(text))
}
