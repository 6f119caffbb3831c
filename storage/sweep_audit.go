package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage/files"
)

// AuditFinding is a file with its class: one of the store, or one that is missing in it.
type AuditFinding struct {
	Class   Class     `json:"class"`
	Path    string    `json:"path"` // below the root of the store
	Size    int64     `json:"size"` // in the store; as recorded when it is missing
	Attempt uuid.UUID `json:"attempt,omitzero"`
	Token   int64     `json:"token,omitempty"`
	What    string    `json:"what,omitempty"` // more about what is unknown or missing
}

// AuditCount is how many files a class has.
type AuditCount struct {
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`
}

// AuditSummary is what an audit found.
type AuditSummary struct {
	Classes map[Class]AuditCount `json:"classes"`
	Stored  StoredTotal          `json:"stored"` // by the database's books
}

// suspects is how many suspicious files wait to be looked at again.
const suspects = 500

// suspect is a file that looked wrong while the store was listed.
type suspect struct {
	place  files.Place
	object string
	size   int64
	path   string
	listed bool // it was in the store, without an owner; else it was recorded and not there, or not as recorded
}

// audit merges the listing of the store with the attempts in the same order.
type audit struct {
	sw      *Sweep
	ctx     context.Context
	each    func(AuditFinding) error
	sum     AuditSummary
	owners  holders
	at      files.Place
	owner   *holding        // of the folder at hand; nil when none accounts for it
	seen    map[string]bool // of its recorded files
	waiting []suspect
}

// Audit lists the whole store and sorts every file, with those that should be there
// and are not: each goes to fn. What looks wrong is looked at once more, in the
// database and in the store, because both change meanwhile. Nothing is changed.
// Memory does not grow with the number of files; the cost is that of all there is.
func (sw *Sweep) Audit(ctx context.Context, fn func(AuditFinding) error) (AuditSummary, error) {
	a := &audit{sw: sw, ctx: ctx, each: fn, sum: AuditSummary{Classes: map[Class]AuditCount{}}, owners: holders{sw: sw}}
	id, err := sw.store.Installation(ctx)
	if err != nil {
		return a.sum, err
	}
	if err := sw.files.CheckMarker(ctx, id); err != nil {
		return a.sum, err
	}
	err = sw.files.List(ctx, a.object)
	if err == nil {
		err = a.end()
	}
	if err != nil {
		return a.sum, fmt.Errorf("audit the files: %w", err)
	}
	a.sum.Stored, err = sw.store.Stored(ctx)
	return a.sum, err
}

// object takes the next entry of the listing.
func (a *audit) object(o files.Object) error {
	if strings.HasSuffix(o.Path, "/") { // a folder, which holds nothing
		return nil
	}
	if o.Place.Attempt == uuid.Nil {
		return a.tell(AuditFinding{Class: ClassUnknown, Path: o.Path, Size: o.Size, What: "it is nothing that Fenceline made"})
	}
	if o.Place != a.at {
		if err := a.enter(o.Place); err != nil {
			return err
		}
	}
	if a.owner == nil {
		return a.suspect(suspect{place: o.Place, object: o.Name, size: o.Size, path: o.Path, listed: true})
	}
	return a.judge(o)
}

// judge tells the class of a file whose owner is known.
func (a *audit) judge(o files.Object) error {
	f := AuditFinding{Class: a.owner.class, Path: o.Path, Size: o.Size, Attempt: o.Place.Attempt, Token: o.Place.Token}
	for i, name := range a.owner.objects {
		if name != o.Name {
			continue
		}
		a.seen[name] = true
		if a.owner.promised() && a.owner.sizes[i] != o.Size {
			return a.suspect(suspect{place: o.Place, object: o.Name, size: a.owner.sizes[i], path: o.Path})
		}
		return a.tell(f)
	}
	if !o.Known { // in a folder of ours, which goes with it one day, but nothing that we made
		f.Class, f.What = ClassUnknown, "it lies among the files of an attempt that has not recorded it"
	}
	return a.tell(f)
}

// enter comes to the next folder of the listing: owners before it have no files.
func (a *audit) enter(p files.Place) error {
	if order(p, a.at) < 0 {
		return fmt.Errorf("the store does not list in order: %s after %s", p, a.at)
	}
	if err := a.leave(); err != nil {
		return err
	}
	a.at = p
	for {
		h, err := a.owners.peek(a.ctx)
		if err != nil {
			return err
		}
		if h == nil || order(h.place, p) > 0 {
			return nil
		}
		a.owner, a.seen = h, map[string]bool{}
		a.owners.pop()
		if h.place == p {
			return nil
		}
		if err := a.leave(); err != nil {
			return err
		}
	}
}

// leave ends the folder at hand: what its owner recorded and was not listed is suspicious.
func (a *audit) leave() error {
	h := a.owner
	a.owner = nil
	if h == nil || !h.promised() {
		return nil
	}
	for i, name := range h.objects {
		if !a.seen[name] {
			if err := a.suspect(suspect{place: h.place, object: name, size: h.sizes[i], path: h.place.String() + "/" + name}); err != nil {
				return err
			}
		}
	}
	return nil
}

// end takes the owners after the last folder.
func (a *audit) end() error {
	last := files.Place{Export: uuid.Max, Token: 1, Attempt: uuid.Max}
	if err := a.enter(last); err != nil {
		return err
	}
	if err := a.leave(); err != nil {
		return err
	}
	return a.again()
}

// order compares places as their paths are compared.
func order(a, b files.Place) int {
	if c := strings.Compare(a.Export.String(), b.Export.String()); c != 0 || a == b {
		return c
	}
	if b == (files.Place{}) {
		return 1
	}
	return cmp.Compare(folderOf(a), folderOf(b))
}

func (a *audit) suspect(s suspect) error {
	a.waiting = append(a.waiting, s)
	if len(a.waiting) < suspects {
		return nil
	}
	return a.again()
}

// again looks at what was suspicious once more: first at the store, then at the
// row. Files go only after their row has changed, and come only after it is there, so
// a row that still says what the file does not is a finding.
func (a *audit) again() error {
	list := a.waiting
	a.waiting = nil
	for _, s := range list {
		size, err := a.size(s)
		if err != nil {
			return err
		}
		h, known, err := a.sw.holding(a.ctx, s.place)
		if err != nil {
			return err
		}
		if err := a.settle(s, size, h, known); err != nil {
			return err
		}
	}
	return nil
}

// size is that of a file as it lies in the store now; -1 when it does not.
func (a *audit) size(s suspect) (int64, error) {
	if s.listed { // it may have a name that cannot be opened
		there, err := a.sw.files.Present(a.ctx, s.place)
		if err != nil || !there {
			return -1, err
		}
		return s.size, nil
	}
	r, err := a.sw.files.Open(a.ctx, s.place, s.object)
	if errors.Is(err, files.ErrNotFound) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return r.Size(), nil
}

func (a *audit) settle(s suspect, size int64, h holding, known bool) error {
	f := AuditFinding{Class: h.class, Path: s.path, Size: size, Attempt: s.place.Attempt, Token: s.place.Token}
	switch {
	case !known && size < 0: // gone meanwhile
		return nil
	case !known:
		f.Class, f.What = ClassUnknown, "no attempt accounts for it"
	case !s.listed && h.promised() && size < 0:
		f.Class, f.Size, f.What = ClassMissing, s.size, fmt.Sprintf("the %s file of token %d is not in the store", h.class, s.place.Token)
	case !s.listed && h.promised() && size != s.size:
		f.Class, f.What = ClassMissing, fmt.Sprintf("the %s file of token %d has %d bytes, %d were recorded", h.class, s.place.Token, size, s.size)
	case size < 0:
		return nil
	case h.state == AttemptDeleted && h.class == ClassUnknown:
		f.What = "it came after its attempt was deleted, and no clean-up looks again"
	}
	return a.tell(f)
}

func (a *audit) tell(f AuditFinding) error {
	c := a.sum.Classes[f.Class]
	c.Objects++
	c.Bytes += f.Size
	a.sum.Classes[f.Class] = c
	return a.each(f)
}
