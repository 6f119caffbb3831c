package main

import (
	"context"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
)

// checks is everything that the doctor looks at, in the order of the answer.
func checks() []check {
	const connected, migrated, redis = "postgres.connection", "schema.migrations", "redis.connection"
	return []check{
		{connected, "L1–L8", "", askConnection},
		{"postgres.version", "L1–L8", connected, server(judgeVersion)},
		{"postgres.primary", "L3", connected, server(judgePrimary)},
		{"postgres.fsync", "L1–L5", connected, server(judgeFsync)},
		{"postgres.full_page_writes", "L1–L5", connected, server(judgeFullPages)},
		{"postgres.commit", "L2, L3, L5", connected, server(judgeCommit)},
		{"postgres.isolation", "L5", connected, server(judgeIsolation)},
		{"postgres.triggers", "L1, L2, L4, L6", connected, server(judgeReplicationRole)},
		{"postgres.pooler", "", connected, askPooler},
		{"postgres.messages", "", "postgres.pooler", askMessages},
		{"postgres.connections", "", connected, askConnections},
		{"postgres.transactions", "", connected, askTransactions},
		{"postgres.clock", "", connected, askPostgresClock},

		{migrated, "L1–L8", connected, askMigrations},
		{"schema.sequence", "L2, L3", migrated, askSequence},
		{"schema.epoch", "L1–L3, L7", migrated, askEpoch},
		{"schema.functions", "L1–L8", migrated, askFunctions},
		{"schema.triggers", "L1, L2, L4, L6", migrated, askTriggers},
		{"schema.indexes", "L2, L4", migrated, askIndexes},
		{"schema.constraints", "L1, L2, L4", migrated, askConstraints},
		{"schema.durable", "L1–L8", migrated, askUnlogged},
		{"schema.snapshots", "", migrated, askSnapshots},

		{redis, "", "", askRedis},
		{"redis.nodes", "", redis, askNodes},
		{"redis.version", "", redis, redisFacts(judgeRedisVersion)},
		{"redis.role", "", redis, redisFacts(judgeRole)},
		{"redis.memory", "", redis, redisFacts(judgeMemory)},
		{"redis.persistence", "", redis, redisFacts(judgePersistence)},
		{"redis.clock", "", redis, askRedisClock},

		{"lease.service", "", "", askLeaseService},

		{"source.role", "", "", askSource},

		{"files.folder", "L1", "", orBucket(askFolder, askBucket)},
		{"files.mark", "L1, L7", migrated, orBucket(askMark, askBucketMark)},
		{"files.names", "L1", migrated, orBucket(askNames, askConditions)},
		{"files.sync", "L1", migrated, orBucket(askSync, askBucketSync)},
		{"files.system", "L1", "", orBucket(askSystem, askBucketSystem)},
		{"files.space", "L5", "", orBucket(askSpace, askBucketSpace)},

		{"settings.lease", "", migrated, askLease},
		{"settings.sweep_grace", "", "", askSweepGrace},
		{"settings.sweep_superseded", "L1", "", askSuperseded},

		{"work.queues", "L5", migrated, askQueues},
		{"work.maintenance", "", migrated, askMaintenance},
		{"work.notices", "", migrated, askNotices},
		{"work.lost", "L5", migrated, askLost},
		{"work.heartbeats", "L5, L7", migrated, askHeartbeats},
		{"work.orphans", "L7", migrated, askOrphans},
		{"work.sweep", "L7", migrated, askSweep},
	}
}

// server makes a check of a judgement about PostgreSQL's settings.
func server(judge func(storage.ServerFacts) finding) func(context.Context, *doctor) (finding, error) {
	return func(ctx context.Context, d *doctor) (finding, error) {
		s, err := d.postgres.Server(ctx)
		if err != nil {
			return finding{}, err
		}
		return judge(s), nil
	}
}

// redisFacts makes a check of a judgement about what each primary of Redis says of
// itself.
func redisFacts(judge func(jobs.RedisFacts) finding) func(context.Context, *doctor) (finding, error) {
	return func(_ context.Context, d *doctor) (finding, error) {
		l, err := d.layout()
		if err != nil {
			return finding{}, err
		}
		return judgeEach(l.Primaries, judge)
	}
}
