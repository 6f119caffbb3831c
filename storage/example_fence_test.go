package storage_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/fenceline/fenceline/storage"
)

// changeBalance sets the balance of an account to what change makes of it. change
// may take its time, and the process may be frozen in it: the balance is written
// only if nobody else has written since the token was drawn.
func changeBalance(ctx context.Context, store *storage.Store, account string, change func(int64) int64) error {
	fence, err := store.Fence(ctx, "acme", "account:"+account, "changeBalance")
	if err != nil {
		return err
	}
	var balance int64 // read after the token was drawn, never before
	err = store.Transaction(ctx, func(tx storage.Tx) error {
		return tx.Raw("SELECT balance FROM bank.accounts WHERE id = ?", account).Scan(&balance).Error
	})
	if err != nil {
		return err
	}
	balance = change(balance)
	return fence.Write(ctx, func(tx storage.Tx) error {
		return tx.Exec("UPDATE bank.accounts SET balance = ? WHERE id = ?", balance, account).Error
	})
}

// A balance of an application's own table, in the database where Fenceline's tables
// are. A writer that was paused while another one wrote is refused; with a new
// token it reads the newer balance and goes on. The test that runs this beside the
// same without a fence is TestABalanceSurvivesAPausedWriter.
func ExampleStore_Fence() {
	ctx := context.Background()
	store, err := storage.Open(ctx, os.Getenv("DATABASE_URL"), storage.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	paused := func(balance int64) int64 {
		// Here the process is frozen, and another one takes 60 from the same account.
		if err := changeBalance(ctx, store, "1", func(balance int64) int64 { return balance - 60 }); err != nil {
			log.Fatal(err)
		}
		return balance - 50
	}
	fmt.Println(changeBalance(ctx, store, "1", paused))                                            // fenced out of "account:1": …
	fmt.Println(changeBalance(ctx, store, "1", func(balance int64) int64 { return balance - 50 })) // <nil>
}
