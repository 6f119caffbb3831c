// Fenceline is a job runner whose jobs publish exports behind a fence. This
// command is everything: private servers to try it out, web, worker, scheduler,
// and the tools for operators. It is the only place where the packages meet.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/fenceline/fenceline/jobs"
)

func main() {
	jobs.QuietRedis()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr, extras{})
	stop()
	os.Exit(code)
}

// extras is what tests add to the program; the zero value is the program.
type extras struct {
	kinds  []jobs.Kind
	faults jobs.Faults
}

// run is the whole program: tests call it with their own arguments and environment.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer, x extras) int {
	c := &cli{getenv: getenv, in: os.Stdin, interrupted: ctx.Done(), out: stdout, err: stderr, extras: x}
	root := c.root()
	args, err := artisan(root, args)
	if err != nil {
		return c.exit(err)
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return c.exit(root.ExecuteContext(ctx))
}
