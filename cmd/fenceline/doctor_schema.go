package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/storage"
)

func askMigrations(_ context.Context, d *doctor) (finding, error) {
	m, err := d.migrated()
	switch {
	case errors.Is(err, storage.ErrNoSchema):
		return danger(err.Error(), "L1–L8: nothing of Fenceline is there", "fenceline migrate"), err
	case err != nil:
		return finding{}, err
	case len(m.Pending) > 0:
		return danger("not run: "+strings.Join(m.Pending, ", "), "L1–L8: guards and functions that this program relies on may be missing", "fenceline migrate"), nil
	case len(m.Unknown) > 0:
		return warning(fmt.Sprintf("the database ran migrations that this program does not know: %v", m.Unknown),
			"nothing known: the guards are the database's; but this program was not tested with them, and what differs below is not held against it",
			"run the same version of Fenceline everywhere"), nil
	}
	return fine("all ran, up to %d", m.Newest), nil
}

func askSequence(ctx context.Context, d *doctor) (finding, error) {
	s, err := d.postgres.Sequence(ctx)
	if err != nil {
		return finding{}, err
	}
	return judgeSequence(s), nil
}

// fewTokens is how many must be left: at a thousand a second they last 11 days.
const fewTokens = 1_000_000_000

func judgeSequence(s storage.SequenceFacts) finding {
	const name = "fenceline.fence_tokens"
	used := max(s.Issued, s.Attempt, s.Fence)
	switch {
	case s.Position < used:
		return danger(fmt.Sprintf("%s stands at %d, but token %d was given out: it was set back, by a restore or by replication that leaves sequences out", name, s.Position, used),
			"L2, L5: tokens below that are refused, so attempts cannot begin; without that refusal old publications would win",
			fmt.Sprintf("SELECT setval('%s', %d)", name, used))
	case s.Cache != 1:
		return danger(fmt.Sprintf("%s has CACHE %d", name, s.Cache),
			"L2, L3: each session hands out numbers of its own batch, so a later attempt may get the lower token; the guard refuses it and the job does not begin",
			"ALTER SEQUENCE "+name+" CACHE 1")
	case s.Increment < 1:
		return danger(fmt.Sprintf("%s has INCREMENT %d", name, s.Increment), "L2: tokens do not rise", "ALTER SEQUENCE "+name+" INCREMENT 1")
	case s.Cycle:
		return danger(name+" has CYCLE", "L2: after its end the tokens begin anew", "ALTER SEQUENCE "+name+" NO CYCLE")
	case s.Left < fewTokens:
		return danger(fmt.Sprintf("%s has %s left", name, count.Of(s.Left, "token")), "L5: then no attempt can begin", "ALTER SEQUENCE "+name+" AS bigint NO MAXVALUE")
	}
	return fine("CACHE 1, at token %d, none higher was given out", s.Position)
}

func askFunctions(ctx context.Context, d *doctor) (finding, error) {
	return d.judgeFaults(ctx, d.postgres.Functions, "as migrated",
		"L1–L8: the protocol's steps are these functions", "speed: bells and progress come late",
		"find out who changed it, and why; then run its CREATE OR REPLACE from the newest file in migrations/ that has it")
}

func askTriggers(ctx context.Context, d *doctor) (finding, error) {
	return d.judgeFaults(ctx, d.postgres.Triggers, "as migrated, and enabled",
		"L1, L2, L4, L6: the database no longer refuses what the code above it might get wrong", "speed: bells and progress come late",
		"ALTER TABLE fenceline.… ENABLE TRIGGER …; one that is missing or differs is made again as its file in migrations/ says")
}

func askIndexes(ctx context.Context, d *doctor) (finding, error) {
	return d.judgeFaults(ctx, d.postgres.Indexes, "as migrated, and valid",
		"L2, L4: two publications of one export or job could stand side by side", "speed: the relay, the clean-up and the pages read whole tables",
		"REINDEX INDEX CONCURRENTLY fenceline.…; one that is missing is made again as its file in migrations/ says")
}

func askConstraints(ctx context.Context, d *doctor) (finding, error) {
	return d.judgeFaults(ctx, d.postgres.Constraints, "as migrated, and validated",
		"L1, L2, L4: rows may point to what is not there, or stand twice", "",
		"ALTER TABLE fenceline.… VALIDATE CONSTRAINT …; one that is missing is added again as its file in migrations/ says")
}

// judgeFaults is a danger when a law leans on one of the faults.
func (d *doctor) judgeFaults(ctx context.Context, ask func(context.Context) ([]storage.Fault, error), good, law, speed, do string) (finding, error) {
	faults, err := ask(ctx)
	if err != nil {
		return finding{}, err
	}
	m, err := d.migrated()
	if err != nil {
		return finding{}, err
	}
	var texts []string
	guards := false
	for _, f := range faults {
		if f.Differs && len(m.Unknown) > 0 {
			continue
		}
		texts = append(texts, f.String())
		guards = guards || f.Guards
	}
	found := strings.Join(texts, "; ")
	switch {
	case found == "":
		return fine("%s", good), nil
	case guards:
		return danger(found, law, do), nil
	}
	return warning(found, speed, do), nil
}

func askUnlogged(ctx context.Context, d *doctor) (finding, error) {
	names, err := d.postgres.Unlogged(ctx)
	if err != nil {
		return finding{}, err
	}
	if len(names) == 0 {
		return fine("every table and sequence is written to the log"), nil
	}
	return danger("unlogged: "+strings.Join(names, ", "), "L1–L8: after a crash of the server it is empty, or begins anew",
		"ALTER TABLE (or SEQUENCE) fenceline.… SET LOGGED"), nil
}

func askSnapshots(ctx context.Context, d *doctor) (finding, error) {
	if err := d.postgres.Snapshots(ctx); err != nil {
		return warning("cannot be opened as attempts do: "+d.withoutSecrets(err), "speed: every attempt that reads this database ends so, and its job fails",
			"do what the message says; where a pooler is in between, let DATABASE_URL name PostgreSQL itself and see whether it is the pooler"), nil
	}
	return fine("open as attempts need them"), nil
}
