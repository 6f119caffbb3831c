package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

var (
	// ErrOtherInstallation means that the folder carries another database's mark,
	// or holds files and carries none: whatever is in it is not ours to touch.
	ErrOtherInstallation = errors.New("the files folder does not belong to this database")
	// ErrExists means that the object's name was used before.
	ErrExists = errors.New("the object exists already")
	// ErrNotFound means that there is no such object.
	ErrNotFound = errors.New("no such object")
)

// markerName is the file at the root that says whose files these are.
const (
	markerName = "FENCELINE.json"
	markerTemp = ".FENCELINE.json-"
)

// Place is where the files of one attempt lie.
type Place struct {
	Export  uuid.UUID
	Token   int64
	Attempt uuid.UUID
}

// String is the place as a path below the root, with forward slashes.
func (p Place) String() string {
	return path.Join(p.Export.String(), p.folder())
}

func (p Place) folder() string {
	return strconv.FormatInt(p.Token, 10) + "-" + p.Attempt.String()
}

// Local keeps objects in a folder of this machine (or of a network file system
// with hard links and an honest fsync). It is safe for concurrent use, also by
// several processes.
type Local struct {
	root *os.Root
	dir  string
}

// OpenLocal opens the folder dir for the installation with the given id,
// creating and marking it when it does not exist or is empty. It fails with
// [ErrOtherInstallation] when the folder is marked for another one or holds
// files without a mark. The caller closes it.
func OpenLocal(dir string, installation uuid.UUID) (*Local, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("create files folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open files folder: %w", err)
	}
	l := &Local{root: root, dir: dir}
	if err := l.checkMarker(installation); err != nil {
		_ = root.Close()
		return nil, err
	}
	return l, nil
}

// Close releases the folder. Open files stay usable.
func (l *Local) Close() error { return l.root.Close() }

// Dir is the folder that was given to [OpenLocal].
func (l *Local) Dir() string { return l.dir }

// CheckMarker is [Store.CheckMarker].
func (l *Local) CheckMarker(_ context.Context, installation uuid.UUID) error {
	return l.checkMarker(installation)
}

func (l *Local) mark(installation uuid.UUID) error {
	names, err := l.names(".", -1)
	if err != nil {
		return err
	}
	if slices.Contains(names, markerName) { // another process was first, since we looked
		return l.checkMarker(installation)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, markerTemp) { // left by a start that was killed
			return fmt.Errorf("%w: %s holds %q but no %s; set FILES_DIR to an empty folder", ErrOtherInstallation, l.dir, name, markerName)
		}
	}
	raw, err := Mark{Installation: installation}.encode()
	if err != nil {
		return err
	}
	w, err := l.create(markerTemp+uuid.NewString(), markerName)
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := w.Write(raw); err != nil {
		return err
	}
	if _, err := w.Commit(); errors.Is(err, ErrExists) {
		return l.checkMarker(installation) // another process was first
	} else if err != nil {
		return err
	}
	return nil
}

// localFile is an *os.File in full, so that a download may leave it to the kernel (sendfile).
type localFile struct {
	*os.File
	size int64
}

func (f localFile) Size() int64 { return f.size }

// Open is [Store.Open]. A file that is being read stays whole even when the
// sweep removes its name meanwhile.
func (l *Local) Open(_ context.Context, p Place, object string) (Reader, error) {
	if err := checkObject(object); err != nil {
		return nil, err
	}
	f, err := l.root.Open(path.Join(p.String(), object))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s/%s", ErrNotFound, p, object)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s/%s: %w", p, object, err)
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("look at %s/%s: %w", p, object, err)
	}
	return localFile{f, info.Size()}, nil
}

// Remove is [Store.Remove]. It does not sync: each fsync of a folder is a commit of the file system's journal or a
// flush of the disk, which publications on the same disk would wait for.
func (l *Local) Remove(_ context.Context, p Place) (int64, error) {
	dir := p.String()
	bytes, err := l.usage(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at %s: %w", dir, err)
	}
	if err := l.root.RemoveAll(dir); err != nil {
		return 0, fmt.Errorf("remove %s: %w", dir, err)
	}
	return bytes, nil
}

// RemoveFolder is [Store.RemoveFolder].
func (l *Local) RemoveFolder(_ context.Context, export uuid.UUID) error {
	err := l.root.Remove(export.String())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the folder of export %s: %w", export, err)
	}
	return nil
}

// Present is [Store.Present].
func (l *Local) Present(_ context.Context, p Place) (bool, error) {
	_, err := l.root.Stat(p.String())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Places is [Store.Places].
func (l *Local) Places(_ context.Context, export uuid.UUID) (places []Place, unknown []string, err error) {
	names, err := l.names(export.String(), -1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list the files of export %s: %w", export, err)
	}
	for _, name := range names {
		if p, ok := parseFolder(export, name); ok {
			places = append(places, p)
		} else {
			unknown = append(unknown, name)
		}
	}
	return places, unknown, nil
}

// Empty is [Store.Empty].
func (l *Local) Empty(context.Context) (bool, error) {
	names, err := l.names(".", 16)
	if err != nil {
		return false, fmt.Errorf("list the files folder: %w", err)
	}
	for _, name := range names {
		if !ownName(name) {
			return false, nil
		}
	}
	return true, nil
}

func parseFolder(export uuid.UUID, name string) (Place, bool) {
	digits, id, found := strings.Cut(name, "-")
	if !found {
		return Place{}, false
	}
	token, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || token <= 0 {
		return Place{}, false
	}
	attempt, err := uuid.Parse(id)
	p := Place{Export: export, Token: token, Attempt: attempt}
	return p, err == nil && p.folder() == name
}

func (l *Local) names(dir string, most int) ([]string, error) {
	f, err := l.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(most)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	return names, err
}

func (l *Local) usage(dir string) (int64, error) {
	var sum int64
	err := fs.WalkDir(l.root.FS(), dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}

// syncDir makes the names in a folder durable (fsync(2) of the directory).
// Windows has no such call; NTFS journals names itself.
func (l *Local) syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := l.root.Open(dir)
	if err != nil {
		return fmt.Errorf("open folder %s to sync it: %w", dir, err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("fsync folder %s: %w", dir, err)
	}
	return nil
}
