package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// objectAt reads the path of something below the root.
func objectAt(name string, size int64, modified time.Time) Object {
	o := Object{Path: name, Size: size, Modified: modified}
	export, rest, below := strings.Cut(name, "/")
	id, err := uuid.Parse(export)
	if !below || err != nil || id.String() != export {
		return o
	}
	o.Place.Export = id
	folder, object, below := strings.Cut(rest, "/")
	p, ok := parseFolder(id, folder)
	if !below || !ok {
		return o
	}
	o.Place, o.Name = p, object
	o.Known = object == "" || checkObject(object) == nil || checkObject(partialOf(object)) == nil
	return o
}

// partialOf is the object that a temporary name stands for; empty for other names.
func partialOf(name string) string {
	if object, dot := strings.CutPrefix(name, "."); dot {
		if object, partial := strings.CutSuffix(object, partialSuffix); partial {
			return object
		}
	}
	return ""
}

// ownName reports whether a name at the root is the store's mark, or left of
// making or probing it.
func ownName(name string) bool {
	return name == markerName || strings.HasPrefix(name, markerTemp)
}

// List is [Store.List].
func (l *Local) List(ctx context.Context, fn func(Object) error) error {
	return l.list(ctx, "", fn)
}

// list calls fn for what lies in a folder, whose name ends with a slash.
func (l *Local) list(ctx context.Context, dir string, fn func(Object) error) error {
	empty := true
	err := l.sorted(ctx, dir, func(name string) error {
		if dir == "" && ownName(strings.TrimSuffix(name, "/")) {
			return nil
		}
		empty = false
		if strings.HasSuffix(name, "/") {
			return l.list(ctx, dir+name, fn)
		}
		info, err := l.root.Lstat(dir + name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look at %s: %w", dir+name, err)
		}
		return fn(objectAt(dir+name, info.Size(), info.ModTime()))
	})
	if err != nil || !empty || dir == "" {
		return err
	}
	info, err := l.root.Lstat(path.Clean(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	return fn(objectAt(dir, 0, info.ModTime()))
}

// listedAtOnce is how many names of a folder are held in memory, some ten
// megabytes. A folder with more is read once for each so many: a million exports
// take eight passes of about a second.
const listedAtOnce = 1 << 17

// sorted calls fn for the names in a folder in their byte order; those of folders
// end with a slash, as they do in a path. A folder that is gone has none.
func (l *Local) sorted(ctx context.Context, dir string, fn func(name string) error) error {
	for after := ""; ; {
		names, more, err := l.next(ctx, dir, after, listedAtOnce)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := fn(name); err != nil {
				return err
			}
			after = name
		}
		if !more {
			return nil
		}
	}
}

// next answers the first names after one, at most so many, and whether there are more.
func (l *Local) next(ctx context.Context, dir, after string, most int) (names []string, more bool, err error) {
	f, err := l.root.Open(path.Clean(dir))
	if errors.Is(err, fs.ErrNotExist) && dir != "" { // without its root the whole store is gone, and not empty
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("list the files folder: %w", err)
	}
	defer f.Close()
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		list, err := f.ReadDir(1024)
		for _, e := range list {
			name := e.Name()
			if e.IsDir() {
				name += "/"
			}
			if name > after {
				names = append(names, name)
			}
		}
		end := errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) && dir != ""
		if err != nil && !end {
			return nil, false, fmt.Errorf("list the files folder: %w", err)
		}
		if end || len(names) >= 2*most {
			slices.Sort(names)
			more = more || len(names) > most
			names = names[:min(len(names), most)]
		}
		if end {
			return names, more, nil
		}
	}
}
