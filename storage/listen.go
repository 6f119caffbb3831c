package storage

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The channels on which the database tells what happened, at commit.
const (
	// ChannelJobs: a job is due.
	ChannelJobs = "fenceline_jobs"
	// ChannelChanges: something about an export changed; the message is its id.
	ChannelChanges = "fenceline_changes"
)

// Listen calls heard for every message on a channel, on a connection of its
// own, until ctx ends or the connection breaks; the error says which. ready is
// called once listening has begun: what happened before that was not heard, so
// it is the moment to look. A message is a hint and never the only one: behind a
// pooler in transaction mode none may arrive.
func (s *Store) Listen(ctx context.Context, channel string, ready func(), heard func(message string)) error {
	conn, err := pgx.ConnectConfig(ctx, s.conf.Copy())
	if err != nil {
		return fmt.Errorf("connect to listen: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return fmt.Errorf("listen on %s: %w", channel, err)
	}
	ready()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("listen on %s: %w", channel, err)
		}
		heard(n.Payload)
	}
}
