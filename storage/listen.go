package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ChannelJobs is where the database tells, at commit, that a job is due. Little is
// told in this way: transactions that notify commit one after the other. Of what
// changes all the time [News] tells.
const ChannelJobs = "fenceline_jobs"

// Listen calls heard for every message on a channel, on a connection of its
// own, until ctx ends or the connection breaks; the error says which. ready is
// called once listening has begun: what happened before that was not heard, so
// it is the moment to look. A message is a hint and never the only one: behind a
// pooler that keeps no sessions, and without [Options.DirectURL], none arrives.
func (s *Store) Listen(ctx context.Context, channel string, ready func(), heard func(message string)) error {
	conf := s.conf
	switch {
	case s.direct != nil:
		conf = s.direct
	case s.pooled != "": // to listen in somebody else's session would be worse than useless
		ready()
		<-ctx.Done()
		return context.Cause(ctx)
	}
	conn, err := pgx.ConnectConfig(ctx, conf.Copy())
	if err != nil {
		return fmt.Errorf("connect to listen: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := s.sameDatabase(ctx, conn); err != nil {
		return err
	}
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

// sameDatabase refuses a [Options.DirectURL] that leads elsewhere: there nobody would ever say anything.
func (s *Store) sameDatabase(ctx context.Context, direct *pgx.Conn) error {
	if s.direct == nil {
		return nil
	}
	ours, err := s.Installation(ctx)
	if err != nil {
		return err
	}
	var theirs string
	err = direct.QueryRow(ctx, "SELECT id::text FROM fenceline.installation").Scan(&theirs)
	if err != nil || theirs != ours.String() {
		return errors.Join(errors.New("DATABASE_DIRECT_URL does not lead to the database of DATABASE_URL"), err)
	}
	return nil
}
