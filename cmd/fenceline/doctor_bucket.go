package main

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/fenceline/fenceline/storage/files"
)

// bucket is where the files lie when that is no folder.
func (d *doctor) bucket() (files.Location, bool) {
	l, err := files.ParseURL(d.conf.Files)
	return l, err == nil && l.Bucket != ""
}

// orBucket makes a check of a folder one of a bucket where the files lie in one.
func orBucket(folder func(context.Context, *doctor) (finding, error), bucket func(context.Context, *doctor, files.Location) (finding, error)) func(context.Context, *doctor) (finding, error) {
	return func(ctx context.Context, d *doctor) (finding, error) {
		if l, is := d.bucket(); is {
			return bucket(ctx, d, l)
		}
		return folder(ctx, d)
	}
}

func askBucket(ctx context.Context, _ *doctor, l files.Location) (finding, error) {
	f, err := files.LookAtBucket(ctx, l)
	if err != nil {
		return finding{}, err
	}
	return judgeBucket(l, f), nil
}

func judgeBucket(l files.Location, f files.BucketFacts) finding {
	if f.Versioned {
		return warning(l.String()+", with versions", "nothing but money: what a clean-up deletes stays as an old version and is paid for",
			"expire old versions after some days with a rule of the bucket's life cycle, or suspend versioning")
	}
	return fine("%s", l)
}

func askBucketMark(ctx context.Context, d *doctor, l files.Location) (finding, error) {
	f, err := files.LookAtBucket(ctx, l)
	if err != nil {
		return finding{}, err
	}
	id, err := d.postgres.Installation(ctx)
	if err != nil {
		return finding{}, err
	}
	return judgeMark(files.FolderFacts{Exists: true, Marked: f.Marked, Holds: f.Holds}, id), nil
}

func askConditions(ctx context.Context, d *doctor, l files.Location) (finding, error) {
	id, err := d.postgres.Installation(ctx)
	if err != nil {
		return finding{}, err
	}
	took, err := files.ProbeBucket(ctx, l, id)
	if errors.Is(err, files.ErrNotOurs) {
		if f, look := files.LookAtBucket(ctx, l); look == nil && f.Marked == uuid.Nil && f.Holds == "" {
			return warning("not tried in a place that is not marked yet", "nothing yet: the first part that starts marks it", "start a worker, then run this again"), nil
		}
	}
	return judgeConditions(took, err)
}

func judgeConditions(took time.Duration, err error) (finding, error) {
	switch {
	case errors.Is(err, files.ErrNoConditions):
		return danger(oneLine(err.Error()), "L1: files that were published can be replaced", "use a server that honours conditional writes, such as Amazon S3"), nil
	case err != nil:
		return finding{}, err
	}
	return fine("names that are taken are refused, for objects and for uploads in parts; a small object took %s", approximately(took)), nil
}

func askBucketSync(context.Context, *doctor, files.Location) (finding, error) {
	return fine("the store answers for what it has confirmed"), nil
}

func askBucketSystem(context.Context, *doctor, files.Location) (finding, error) {
	return fine("an object store"), nil
}

func askBucketSpace(context.Context, *doctor, files.Location) (finding, error) {
	return fine("an object store does not say how much is free"), nil
}
