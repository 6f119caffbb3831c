package report

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrNotFound is the error for a name that no folder of a catalog has.
var ErrNotFound = errors.New("no such report")

const (
	// maxFile bounds a report's file, in bytes.
	maxFile = 1 << 20
	// settle is how old a file must be before its time and size are trusted: two
	// edits within one tick of a file system's clock can share both.
	settle = 2 * time.Second
)

// Catalog finds reports in folders. Later folders win over earlier ones, so that
// a user's report replaces a built-in one of the same name; a broken file is an
// error and does not bring the replaced one back. Files are read again when
// their time or size changed. A Catalog is safe for concurrent use.
type Catalog struct {
	sources []fs.FS

	mu    sync.Mutex
	cache map[place]entry
}

type place struct {
	source int
	file   string
}

type entry struct {
	modified time.Time
	size     int64
	settled  bool
	def      *Definition
	err      error
}

// NewCatalog is a catalog of the .sql files at the top of each source. A source
// whose folder does not exist is empty, until it does.
func NewCatalog(sources ...fs.FS) *Catalog {
	return &Catalog{sources: slices.Clone(sources), cache: map[place]entry{}}
}

// Get is the report of exactly this name. The error is [ErrNotFound], with the
// names that exist in its text, or the [Mistakes] of the file.
func (c *Catalog) Get(name string) (*Definition, error) {
	// Nothing but a plain name becomes a part of a path.
	if namePattern.MatchString(name) {
		for i := len(c.sources) - 1; i >= 0; i-- {
			d, err := c.load(place{i, name + ".sql"})
			if !errors.Is(err, fs.ErrNotExist) {
				return d, err
			}
		}
	}
	return nil, c.notFound(name)
}

func (c *Catalog) notFound(name string) error {
	files, err := c.files()
	names := make([]string, 0, len(files))
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if known := strings.TrimSuffix(file, ".sql"); namePattern.MatchString(known) {
			names = append(names, known)
		}
	}
	known := "there are none"
	if len(names) > 0 {
		known = "there are " + strings.Join(names, ", ") + DidYouMean(name, names)
	}
	return errors.Join(fmt.Errorf("report %q: %w: %s", name, ErrNotFound, known), err)
}

// List is every report that can be read, by name. When some cannot, it returns
// the others with an error that joins the mistakes of all files.
func (c *Catalog) List() ([]*Definition, error) {
	files, err := c.files()
	problems := []error{err}
	var defs []*Definition
	for _, file := range slices.Sorted(maps.Keys(files)) {
		d, err := c.load(place{files[file], file})
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed since it was listed
		case err != nil:
			problems = append(problems, err)
		default:
			defs = append(defs, d)
		}
	}
	return defs, errors.Join(problems...)
}

// files maps each report's file to the source that wins it. Hidden files, which
// editors leave behind, are no reports.
func (c *Catalog) files() (map[string]int, error) {
	files := map[string]int{}
	var problems []error
	for i, source := range c.sources {
		entries, err := fs.ReadDir(source, ".")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, fmt.Errorf("list reports: %w", err))
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".sql") && !strings.HasPrefix(e.Name(), ".") && !e.IsDir() {
				files[e.Name()] = i
			}
		}
	}
	return files, errors.Join(problems...)
}

// load is the file's definition, read again if it changed. The error of a file
// that is not there is fs.ErrNotExist.
func (c *Catalog) load(at place) (*Definition, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := fs.Stat(c.sources[at.source], at.file)
	if err == nil && info.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil {
		delete(c.cache, at)
		return nil, fmt.Errorf("read report %s: %w", at.file, err)
	}
	known, ok := c.cache[at]
	if !ok || !known.settled || !known.modified.Equal(info.ModTime()) || known.size != info.Size() {
		known = read(c.sources[at.source], at.file, info)
		c.cache[at] = known
	}
	return known.def, known.err
}

func read(source fs.FS, file string, info fs.FileInfo) entry {
	e := entry{modified: info.ModTime(), size: info.Size()}
	e.settled = time.Since(e.modified) > settle
	if e.size > maxFile {
		e.err = Mistakes{{File: file, Line: 1, Message: fmt.Sprintf("the file has %d bytes, at most %d are read", e.size, maxFile)}}
		return e
	}
	src, err := fs.ReadFile(source, file)
	if err != nil {
		e.settled = false
		e.err = fmt.Errorf("read report %s: %w", file, err)
		return e
	}
	e.def, e.err = Parse(file, src)
	return e
}
