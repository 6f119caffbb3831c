package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage/files"
)

func askFolder(ctx context.Context, d *doctor) (finding, error) {
	f, err := files.LookAt(d.conf.Files)
	if err != nil {
		return finding{}, err
	}
	if !f.Exists {
		return d.judgeNoFolder(ctx)
	}
	return judgeFolder(d.conf.Files, f, os.Geteuid()), nil
}

// judgeNoFolder asks the database whether there should be one.
func (d *doctor) judgeNoFolder(ctx context.Context) (finding, error) {
	published, err := d.postgres.HasPublished(ctx)
	if err != nil {
		return finding{}, fmt.Errorf("%s does not exist, and whether it should: %w", d.conf.Files, err)
	}
	if published {
		return danger(d.conf.Files+" does not exist, but exports were published", "L1: pointers name files that are not there",
			"mount the folder, or set FILES_DIR to it, before anything is started"), nil
	}
	return warning(d.conf.Files+" does not exist", "nothing yet: the first part that starts makes it", "start a worker, then run this again"), nil
}

func judgeFolder(dir string, f files.FolderFacts, me int) finding {
	found := fmt.Sprintf("%s, mode %#o", dir, f.Mode.Perm())
	if f.Owner >= 0 {
		found += fmt.Sprintf(", owner %d", f.Owner)
	}
	if f.Owner >= 0 && f.Mode.Perm()&0o002 != 0 { // without owners the mode means nothing
		return danger(found, "L1, L7: every user of this machine can replace and remove what was published", "chmod o-w "+dir)
	}
	if f.Owner >= 0 && f.Owner != me {
		return warning(fmt.Sprintf("%s; this command runs as user %d", found, me),
			"nothing, if the workers run as the owner: this command then has other rights than they", "run it as the user of the workers")
	}
	return fine("%s", found)
}

func askMark(ctx context.Context, d *doctor) (finding, error) {
	f, err := files.LookAt(d.conf.Files)
	if err != nil {
		return finding{}, err
	}
	id, err := d.postgres.Installation(ctx)
	if err != nil {
		return finding{}, err
	}
	return judgeMark(f, id), nil
}

func judgeMark(f files.FolderFacts, id uuid.UUID) finding {
	const do = "set FILES_DIR (or DATABASE_URL) so that both belong together; never change the mark to fit"
	const law = "L1, L7: pointers of this database name files of another folder, and a clean-up would look at strangers' files"
	switch {
	case f.Marked == id:
		return fine("the folder and the database are of one installation")
	case f.Marked != uuid.Nil:
		return danger(fmt.Sprintf("the folder is of installation %s, the database of %s", f.Marked, id), law, do)
	case f.Holds != "":
		return danger(fmt.Sprintf("the folder holds %q and carries no mark", f.Holds), law, do)
	}
	return warning("the folder is new and not yet marked", "nothing yet: the first part that starts marks it", "start a worker, then run this again")
}

// probed answers what was tried in the folder. A finding instead says why
// nothing was: a folder that nobody has used yet is no fault.
func (d *doctor) probed() (files.ProbeFacts, finding, error) {
	p, err := d.probe()
	if !errors.Is(err, files.ErrNotOurs) {
		return p, finding{}, err
	}
	f, look := files.LookAt(d.conf.Files)
	if look == nil && (!f.Exists || f.Marked == uuid.Nil && f.Holds == "") {
		return p, warning("not tried in a folder that is not marked yet", "nothing yet: the first part that starts marks it", "start a worker, then run this again"), nil
	}
	return p, finding{}, err
}

func askNames(_ context.Context, d *doctor) (finding, error) {
	p, instead, err := d.probed()
	if err != nil || instead.Grade != "" {
		return instead, err
	}
	return judgeNames(p), nil
}

func judgeNames(p files.ProbeFacts) finding {
	const do = "keep the files on a file system with hard links, such as ext4, XFS, APFS, NTFS or NFS"
	switch {
	case p.Links && !p.LinkRefuses, p.Synced > 0 && !p.CreateRefuses:
		return danger(p.Problem, "L1: files that were published can be replaced", do)
	case !p.Links || !p.Renames:
		return danger(p.Problem, "L5: no attempt can finish a file, so every accepted job fails", do)
	}
	return fine("links and new files refuse names that are taken")
}

func askSync(_ context.Context, d *doctor) (finding, error) {
	p, instead, err := d.probed()
	if err != nil || instead.Grade != "" {
		return instead, err
	}
	return d.judgeSync(p), nil
}

func (d *doctor) judgeSync(p files.ProbeFacts) finding {
	found := "fsync of a file and its folder took " + approximately(p.Synced)
	switch {
	case p.Synced == 0:
		return danger("a file could not be written and synced: "+p.Problem, "L1: what is not synced may be gone after a power cut, so attempts fail rather than publish it",
			"make room if there is none; else keep the files where fsync works")
	case p.Synced > d.limits.sync:
		return warning(found, "speed: each file of an export waits that long, and its folder again", "use a quicker disk, or one that others use less")
	}
	return fine("%s", found)
}

func askSystem(_ context.Context, d *doctor) (finding, error) {
	v, err := files.LookAtVolume(d.conf.Files)
	if errors.Is(err, errors.ErrUnsupported) {
		return warning("this system does not say", "nothing known", "see to it that it is a disk, or a network file system that keeps what fsync promised"), nil
	}
	if err != nil {
		return finding{}, err
	}
	return judgeSystem(v), nil
}

func judgeSystem(v files.VolumeFacts) finding {
	switch v.Keeping {
	case files.KeepsInMemory:
		return danger(v.System+", which is kept in memory", "L1: after a restart pointers name files that are gone", "set FILES_DIR to a folder on a disk")
	case files.KeepsInLayer:
		return warning(v.System+", a container's own layer", "nothing while this container lives; its files go with it", "mount a volume at FILES_DIR")
	case files.KeepsRemotely:
		return warning(v.System+", a network file system or a program that answers for one", "nothing known: whether fsync is kept is for its server to say, and not seen from here",
			"check that fsync reaches the server's disk (NFS: a hard mount and an export with sync; CIFS, FUSE: ask its manual for fsync and hard links)")
	}
	return fine("%s", v.System)
}

func askSpace(_ context.Context, d *doctor) (finding, error) {
	v, err := files.LookAtVolume(d.conf.Files)
	if errors.Is(err, errors.ErrUnsupported) {
		return warning("this system does not say how much is free", "nothing known", "watch it by other means"), nil
	}
	if err != nil {
		return finding{}, err
	}
	return d.judgeSpace(v), nil
}

func (d *doctor) judgeSpace(v files.VolumeFacts) finding {
	space, names := fraction(v.Free, v.Size), fraction(v.FreeFiles, v.MaxFiles)
	found := fmt.Sprintf("%.0f %% free (%s)", 100*space, bytesText(v.Free))
	if v.MaxFiles > 0 {
		found += ", room for " + count.Of(v.FreeFiles, "more file")
	}
	const do = "make room: a larger disk, less in SWEEP_SUPERSEDED, or move what else is there"
	switch least := min(space, names); {
	case least < d.limits.gone:
		return danger(found, "L5: jobs that were accepted fail for want of room; what is published stays", do)
	case least < d.limits.scarce:
		return warning(found, "speed, soon: without room attempts fail; what is published stays", do)
	}
	return fine("%s", found)
}

// fraction of all that is free; without a limit nothing runs out.
func fraction(free, all uint64) float64 {
	if all == 0 {
		return 1
	}
	return float64(free) / float64(all)
}
