package storage

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5"
)

// LabAccount is a row of an application's own in a scratch database: the same
// balance twice, once behind a fence and once not. It is safe for concurrent use,
// also by several processes.
type LabAccount struct {
	store *Store
	id    string
}

// labTenant is whose fences the lab uses, in its scratch database.
const labTenant = "lab"

// MakeLabTable makes the table of the lab's accounts, in a schema of its own.
func (s *Store) MakeLabTable(ctx context.Context) error {
	err := s.Exec(ctx, `CREATE SCHEMA lab; CREATE TABLE lab.accounts (id text PRIMARY KEY, fenced bigint NOT NULL, unfenced bigint NOT NULL)`)
	if err != nil {
		return fmt.Errorf("create the scratch table: %w", err)
	}
	return nil
}

// LabAccount names an account. It may not exist.
func (s *Store) LabAccount(id string) *LabAccount { return &LabAccount{s, id} }

// Open makes the account.
func (a *LabAccount) Open(ctx context.Context, balance int64) error {
	_, err := a.store.pool.Exec(ctx, "INSERT INTO lab.accounts VALUES ($1, $2, $2)", a.id, balance)
	if err != nil {
		return fmt.Errorf("fill the scratch table: %w", err)
	}
	return nil
}

// Read reads both balances.
func (a *LabAccount) Read(ctx context.Context) (fenced, unfenced int64, err error) {
	err = a.store.pool.QueryRow(ctx, "SELECT fenced, unfenced FROM lab.accounts WHERE id = $1", a.id).Scan(&fenced, &unfenced)
	if err != nil {
		return 0, 0, fmt.Errorf("read the scratch table: %w", err)
	}
	return fenced, unfenced, nil
}

// Overwrite sets the balance that no fence protects.
func (a *LabAccount) Overwrite(ctx context.Context, balance int64) error {
	if _, err := a.store.pool.Exec(ctx, "UPDATE lab.accounts SET unfenced = $2 WHERE id = $1", a.id, balance); err != nil {
		return fmt.Errorf("write the scratch table: %w", err)
	}
	return nil
}

// Fence draws a token for the other balance.
func (a *LabAccount) Fence(ctx context.Context, holder string) (Fence, error) {
	return a.store.Fence(ctx, labTenant, a.id, holder)
}

// Write sets the balance that the fence protects; refused, it is [ErrFenced].
func (a *LabAccount) Write(ctx context.Context, f Fence, balance int64) error {
	return f.Write(ctx, func(tx Tx) error {
		return tx.Exec("UPDATE lab.accounts SET fenced = ? WHERE id = ?", balance, a.id).Error
	})
}

// ScratchDatabase makes an empty database on the server of an address, and answers
// its address and what drops it again with whoever is connected to it. The role
// must be allowed to create databases.
func ScratchDatabase(ctx context.Context, address, prefix string) (scratch string, drop func(context.Context) error, err error) {
	conf, err := pgx.ParseConfig(address)
	if err != nil {
		return "", nil, badURL("DATABASE_URL", err)
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "", nil, fmt.Errorf("DATABASE_URL must be an address such as postgres://HOST/NAME for a scratch database to be made beside it")
	}
	tag := make([]byte, 4)
	_, _ = rand.Read(tag)
	name := fmt.Sprintf("%s_%x", prefix, tag)
	run := func(ctx context.Context, sql string) error {
		conn, err := pgx.ConnectConfig(ctx, conf.Copy())
		if err != nil {
			return fmt.Errorf("connect to PostgreSQL: %w", unreachable(err))
		}
		defer hangUp(conn)
		_, err = conn.Exec(ctx, sql)
		return err
	}
	quoted := pgx.Identifier{name}.Sanitize()
	if err := run(ctx, "CREATE DATABASE "+quoted); err != nil {
		return "", nil, fmt.Errorf("make a scratch database on the server of DATABASE_URL: %w", err)
	}
	u.Path = "/" + name
	return u.String(), func(ctx context.Context) error {
		if err := run(ctx, "DROP DATABASE IF EXISTS "+quoted+" WITH (FORCE)"); err != nil {
			return fmt.Errorf("drop the scratch database %s: %w", name, err)
		}
		return nil
	}, nil
}
