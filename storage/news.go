package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	// mostNews is how many exports [News.Next] names; of more it says that everything may have changed.
	mostNews = 1000
	// newsKept is how long news are kept at least. Who looks less often than in half of it may have missed some.
	newsKept = time.Minute
)

// News tells of which exports something changed: of the export itself, its jobs or
// its attempts. It is a hint for those who show them. It has a connection of its
// own, also behind a pooler, and is not safe for concurrent use.
type News struct {
	conn   *pgx.Conn
	seen   string    // what the database had committed at the last look, as a pg_snapshot
	looked time.Time // when that was
}

// News begins to listen: [News.Next] tells of what is committed after that. The caller closes it.
func (s *Store) News(ctx context.Context) (*News, error) {
	conn, err := pgx.ConnectConfig(ctx, s.conf.Copy())
	if err != nil {
		return nil, fmt.Errorf("connect to look for news: %w", err)
	}
	n := &News{conn: conn, looked: time.Now()}
	if err := conn.QueryRow(ctx, "SELECT pg_current_snapshot()::text").Scan(&n.seen); err != nil {
		n.Close(ctx)
		return nil, fmt.Errorf("look for news: %w", err)
	}
	return n, nil
}

// Next answers the exports of which something was committed since it was last
// called, each once, about in the order of the changes. all says that it cannot tell: too much
// happened, or it was called too seldom; then everything may have changed.
// After an error, which may have hidden something too, begin anew.
func (n *News) Next(ctx context.Context) (exports []uuid.UUID, all bool, err error) {
	began := time.Now()
	err = n.conn.QueryRow(ctx, "SELECT seen::text, exports FROM fenceline.news_since($1::text::pg_snapshot, $2)", n.seen, mostNews+1).Scan(&n.seen, &exports)
	if err != nil {
		return nil, false, fmt.Errorf("look for news: %w", err)
	}
	late := began.Sub(n.looked) > newsKept/2
	n.looked = began
	if late || len(exports) > mostNews {
		return nil, true, nil
	}
	return exports, false, nil
}

// Close ends the connection.
func (n *News) Close(ctx context.Context) { _ = n.conn.Close(context.WithoutCancel(ctx)) }

// ForgetNews removes news that are older than a minute, if it is called once a
// minute with what it answered before; at first with the empty string, which
// removes only what no reader can make sense of.
func (s *Store) ForgetNews(ctx context.Context, before string) (next string, err error) {
	if before == "" {
		before = "0"
	}
	if err := s.pool.QueryRow(ctx, "SELECT fenceline.forget_news($1::text::xid8)::text", before).Scan(&next); err != nil {
		return before, fmt.Errorf("forget old news: %w", err)
	}
	return next, nil
}
