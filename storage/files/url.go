package files

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Location is where a store keeps its objects: a folder, or a part of a bucket.
type Location struct {
	Dir string // of a folder; empty for a bucket

	Bucket, Prefix string // the prefix has no slash at either end
	Region         string // empty: what the AWS configuration says
	Endpoint       string // empty: AWS
	PathStyle      bool   // the bucket is in the path, and not part of the host's name
	Timeout        time.Duration
}

// usualTimeout is how long an object store may make no progress before a request
// is given up and tried again.
const usualTimeout = 30 * time.Second

// ParseURL reads a location, as the setting FILES_URL has it:
//
//	file:///absolute/folder
//	s3://bucket/prefix?region=eu-central-1&endpoint=https://s3.example.com&path_style=true&timeout=30s
//
// A text without a scheme is a folder. The error says what is wrong and what
// would be right, but not the text itself: somebody may have put a secret into it.
func ParseURL(text string) (Location, error) {
	scheme, _, found := strings.Cut(text, "://")
	if !found {
		if text == "" || strings.HasPrefix(text, "s3:") || strings.HasPrefix(text, "file:") {
			return Location{}, errors.New("must be file:///FOLDER or s3://BUCKET/PREFIX")
		}
		return Location{Dir: text}, nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return Location{}, errors.New("is not a URL; must be file:///FOLDER or s3://BUCKET/PREFIX")
	case u.User != nil:
		return Location{}, errors.New("must not hold a name or password: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or another of the ways of the AWS configuration")
	case u.Fragment != "":
		return Location{}, errors.New("must not have a part after #")
	case scheme == "file":
		return parseFolderURL(u)
	case scheme == "s3":
		return parseBucketURL(u)
	}
	return Location{}, fmt.Errorf("begins with %q; must be file:///FOLDER or s3://BUCKET/PREFIX", shortened(scheme))
}

func shortened(s string) string { return s[:min(len(s), 20)] }

func parseFolderURL(u *url.URL) (Location, error) {
	dir := filepath.FromSlash(u.Path)
	if runtime.GOOS == "windows" {
		dir = strings.TrimPrefix(dir, `\`) // file:///C:/folder
	}
	if u.Host != "" || !filepath.IsAbs(dir) {
		return Location{}, errors.New("must name an absolute folder, with three slashes: file:///srv/exports")
	}
	if u.RawQuery != "" {
		return Location{}, errors.New("must not have a part after ?: a folder has no parameters")
	}
	return Location{Dir: dir}, nil
}

func parseBucketURL(u *url.URL) (Location, error) {
	l := Location{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/"), Timeout: usualTimeout}
	if !regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`).MatchString(l.Bucket) {
		return l, errors.New("must name a bucket of 3 to 63 small letters, digits, dots and hyphens: s3://BUCKET/PREFIX")
	}
	if l.Prefix != "" && (path.Clean("/"+l.Prefix) != "/"+l.Prefix || !regexp.MustCompile(`^[A-Za-z0-9!_.*'()/-]{1,500}$`).MatchString(l.Prefix)) {
		return l, errors.New("must have a prefix of letters, digits and any of ! _ . * ' ( ) / -, without empty parts or dots alone")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return l, errors.New("has parameters that cannot be read; they look like ?region=eu-central-1&endpoint=https://s3.example.com")
	}
	for name, values := range query {
		if len(values) != 1 {
			return l, fmt.Errorf("has the parameter %s more than once", shortened(name))
		}
		if err := l.set(name, values[0]); err != nil {
			return l, err
		}
	}
	if !query.Has("path_style") {
		l.PathStyle = l.Endpoint != "" // most servers have no names for buckets in the DNS
	}
	return l, nil
}

// set is one parameter of an s3 URL.
func (l *Location) set(name, value string) (err error) {
	switch name {
	case "region":
		l.Region = value
		if !regexp.MustCompile(`^[A-Za-z0-9-]{1,40}$`).MatchString(value) {
			return errors.New("has a region that is none; it looks like region=eu-central-1")
		}
	case "endpoint":
		u, err := url.Parse(value)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			return errors.New("has an endpoint that is none; it looks like endpoint=https://s3.example.com")
		}
		l.Endpoint = u.Scheme + "://" + u.Host
	case "path_style":
		if l.PathStyle, err = strconv.ParseBool(value); err != nil {
			return errors.New("has a path_style that is neither true nor false")
		}
	case "timeout":
		if l.Timeout, err = time.ParseDuration(value); err != nil || l.Timeout < time.Second || l.Timeout > time.Hour {
			return errors.New("has a timeout that is not between 1s and 1h, such as timeout=30s")
		}
	default:
		return fmt.Errorf("has a parameter %q that is not known; there are region, endpoint, path_style and timeout (keys and secrets belong into the AWS configuration)", shortened(name))
	}
	return nil
}

// String is the location as one can show it.
func (l Location) String() string {
	if l.Bucket == "" {
		return l.Dir
	}
	s := "s3://" + path.Join(l.Bucket, l.Prefix)
	if l.Endpoint != "" {
		s += " at " + l.Endpoint
	}
	return s
}

// Open opens the store at a location (see [ParseURL]) for the installation with
// the given id, and marks it when it is new. A bucket's uploads are remembered in
// the ledger. The caller closes the store.
func Open(ctx context.Context, location string, installation uuid.UUID, ledger Ledger) (Store, error) {
	l, err := ParseURL(location)
	if err != nil {
		return nil, fmt.Errorf("the location of the files %w", err)
	}
	if l.Bucket == "" {
		return OpenLocal(l.Dir, installation)
	}
	return OpenS3(ctx, l, installation, ledger)
}
