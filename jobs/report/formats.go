package report

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/jobs/report/tabular"
)

var formatName = regexp.MustCompile(`^[a-z][a-z0-9]{0,15}$`)

// File is a format with its compression: what a request calls csv.gz.
type File struct {
	Name        string // also the ending of its files
	Format      tabular.Format
	Compression string // gzip, zstd or empty
	MediaType   string // of the file as it lies there: application/gzip for csv.gz
}

// Formats are the files that a program can write. They are read only and safe
// for concurrent use.
type Formats struct {
	files []File
}

// compression is a way to make files smaller. The names are those of the content
// codings (RFC 1952, RFC 8878).
type compression struct{ name, ending, mediaType string }

func compressions() []compression {
	return []compression{{"gzip", ".gz", "application/gzip"}, {"zstd", ".zst", "application/zstd"}}
}

// NewFormats are the built-in formats and then more. A name is a-z and then up to
// 15 of a-z and 0-9; one that is taken is an error.
func NewFormats(more ...tabular.Format) (*Formats, error) {
	f := new(Formats)
	for _, format := range append(builtin(), more...) {
		switch {
		case !formatName.MatchString(format.Name):
			return nil, fmt.Errorf("format name %q: begin with a-z, go on with a-z and 0-9, at most 16", format.Name)
		case slices.Contains(f.Names(), format.Name):
			return nil, fmt.Errorf("format %s is registered twice", format.Name)
		case format.New == nil || format.MediaType == "":
			return nil, fmt.Errorf("format %s has no New or no media type", format.Name)
		}
		f.files = append(f.files, File{Name: format.Name, Format: format, MediaType: format.MediaType})
		if !format.Compressible {
			continue
		}
		for _, c := range compressions() {
			f.files = append(f.files, File{Name: format.Name + c.ending, Format: format, Compression: c.name, MediaType: c.mediaType})
		}
	}
	return f, nil
}

// Names are all that can be asked for, in the order of registration, each format
// before its compressed files: csv, csv.gz, csv.zst, xlsx …
func (f *Formats) Names() []string {
	names := make([]string, len(f.files))
	for i, file := range f.files {
		names[i] = file.Name
	}
	return names
}

// Get is the file of this name. The error is an [invalid.Error] of the field
// format that says what there is.
func (f *Formats) Get(name string) (File, error) {
	i := slices.IndexFunc(f.files, func(file File) bool { return file.Name == name })
	if i < 0 {
		return File{}, invalid.New("format", name, "%s", f.problem(name))
	}
	return f.files[i], nil
}

func (f *Formats) problem(name string) string {
	return "is no format: there are " + strings.Join(f.Names(), ", ") + DidYouMean(name, f.Names())
}
