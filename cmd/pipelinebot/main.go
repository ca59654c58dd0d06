// Command pipelinebot is the program; everything it does is in internal/cli.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/pipelinebot/pipelinebot/internal/cli"
	"github.com/pipelinebot/pipelinebot/internal/sandbox"
)

func main() {
	if handled, code := sandbox.Child(os.Args[1:], os.Stderr); handled {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal drains; after it the default is back, so that a second
	// one ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Main(ctx, os.Args[1:], cli.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.LookupEnv}))
}
