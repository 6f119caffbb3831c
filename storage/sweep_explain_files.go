package storage

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage/files"
)

func nobodyKnows(subject string) error {
	return fmt.Errorf("%q: there is no such attempt, no such export and no such file: %w", subject, ErrNotFound)
}

func unaccounted(subject string) []Explanation {
	return []Explanation{{Subject: subject, Class: ClassUnknown, Outcome: "unknown", Sentence: "unknown: no attempt accounts for it; it is never deleted"}}
}

// explainFolder is for the id of an export that has no row: there may be a folder of it.
func (sw *Sweep) explainFolder(ctx context.Context, export uuid.UUID) ([]Explanation, error) {
	places, names, err := sw.files.Places(ctx, export)
	switch {
	case err != nil:
		return nil, err
	case len(places) == 0 && len(names) == 0:
		return nil, nobodyKnows(export.String())
	}
	return unaccounted(export.String()), nil
}

// explainOther is for a path that is none of an attempt's.
func (sw *Sweep) explainOther(ctx context.Context, name string) ([]Explanation, error) {
	clean := files.At(name).Path
	if local, ok := sw.files.(interface{ Dir() string }); ok {
		clean = strings.TrimPrefix(clean, path.Clean(strings.ReplaceAll(local.Dir(), `\`, "/"))+"/")
	}
	if files.IsMark(clean) {
		_, err := sw.files.ReadMark(ctx)
		if errors.Is(err, files.ErrNotFound) {
			return nil, nobodyKnows(name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", clean, err)
		}
		return []Explanation{{Subject: name, Outcome: "stays", Sentence: "stays: it is the mark of the store, by which the database knows its files; it is never deleted"}}, nil
	}
	there := false
	found := errors.New("found")
	err := sw.files.List(ctx, func(o files.Object) error { // a store has no other way to ask for what it did not make
		there = o.Path == clean || strings.HasPrefix(o.Path, clean+"/")
		if there || o.Path > clean+"/" {
			return found
		}
		return nil
	})
	switch {
	case err != nil && !errors.Is(err, found):
		return nil, fmt.Errorf("look for %s: %w", clean, err)
	case !there:
		return nil, nobodyKnows(name)
	}
	return unaccounted(name), nil
}

// missing says of what must be there that it is not: the object that was asked for, or with "" any that the attempt recorded.
func (sw *Sweep) missing(ctx context.Context, x *Explanation, p files.Place, object string) error {
	h, known, err := sw.holding(ctx, p)
	if err != nil || !known || !h.promised() {
		return err
	}
	for i, name := range h.objects {
		if object != "" && slices.Contains(h.objects, object) && name != object {
			continue
		}
		what, err := sw.lack(ctx, p, name, h.sizes[i])
		if err != nil {
			return err
		}
		if what == "" {
			continue
		}
		if again, known, err := sw.holding(ctx, p); err != nil || !known || !again.promised() { // it went meanwhile, by its verdict
			return err
		}
		_, text, _ := strings.Cut(x.Sentence, ": ")
		x.Class, x.Outcome = ClassMissing, "missing"
		x.Sentence = fmt.Sprintf("missing: %s must be there and %s; %s", p.String()+"/"+name, what, text)
		return nil
	}
	return nil
}

// lack is what is wrong with a file as it lies in the store; "" when nothing is.
func (sw *Sweep) lack(ctx context.Context, p files.Place, object string, size int64) (string, error) {
	r, err := sw.files.Open(ctx, p, object)
	if errors.Is(err, files.ErrNotFound) {
		return "is not in the store", nil
	}
	if err != nil {
		return "", err
	}
	defer r.Close()
	if r.Size() != size {
		return fmt.Sprintf("has %d bytes, %d were recorded", r.Size(), size), nil
	}
	return "", nil
}
