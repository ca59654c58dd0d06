// Package cli is the command line: one file a command, everything written to
// injected streams, --json everywhere.
//
// It must not decide anything about runs or issues. It may import
// internal/{app,replay,demo,config,strictyaml,forge,flowops,flowscript,mockworld}
// and mockworld/scenario, flows/{engine,templates}, phases/markdown, the
// contracts checkpoints, flows and labels, and the command-line library, which
// no other package knows.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

// Exit codes of Main.
const (
	ExitOK    = 0 // all went well
	ExitNo    = 1 // the pipeline said no, or something failed
	ExitUsage = 2 // usage, configuration or input
	ExitBusy  = 3 // busy, halted, or waiting for a person
)

// IO is what a command talks to.
type IO struct {
	In io.Reader
	// Out gets what was asked for, Err everything else: logs and errors.
	Out, Err io.Writer
	// Env looks up the environment variables that the configuration names.
	Env config.Env
}

// exitError carries an exit code to Main.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exitError{ExitUsage, fmt.Errorf(format, args...)}
}

func said(format string, args ...any) error {
	return &exitError{ExitNo, fmt.Errorf(format, args...)}
}

// classified reports that a command has chosen the exit code itself.
func classified(err error) bool {
	var e *exitError
	return errors.As(err, &e)
}

// shell is what all commands share.
type shell struct {
	IO
	out         sync.Mutex // guards Out against lines of two goroutines
	json        bool
	config      string
	configNamed bool // by the user, so that the file must be there
}

// Main runs one command line and returns the exit code. The end of ctx asks
// a command that serves to drain; it must be cancelled once.
func Main(ctx context.Context, args []string, streams IO) int {
	streams.Out, streams.Err = plain{streams.Out}, plain{streams.Err}
	s := &shell{IO: streams}
	root := s.root() //nolint:contextcheck // commands get the context from cobra
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	code := exitCode(err)
	// A flag that cannot be parsed may have hidden --json from the library.
	if s.json || slices.Contains(args, "--json") {
		s.emit(map[string]any{"error": err.Error(), "exit": code})
	} else {
		fmt.Fprintf(s.Err, "pipelinebot: %v\n", err)
	}
	return code
}

// exitCode maps an error to a code. What no command has classified is a usage
// error when it is about input, else a plain failure.
func exitCode(err error) int {
	var e *exitError
	var yaml strictyaml.Problems
	var flow flows.Problems
	switch {
	case errors.As(err, &e):
		return e.code
	case errors.Is(err, checkpoints.ErrInUse):
		return ExitBusy
	case errors.Is(err, app.ErrSetup), errors.Is(err, checkpoints.ErrNewer), errors.As(err, &yaml), errors.As(err, &flow):
		return ExitUsage
	}
	return ExitNo
}

func (s *shell) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "pipelinebot",
		Short: "Walk labelled GitHub issues through triage, plan, implement and review",
		Long: "pipelinebot walks a labelled GitHub issue through triage, plan, implement and\n" +
			"review, and leaves a reviewed pull request whose tests it ran itself.\n\n" +
			"Exit codes: 0 ok, 1 the pipeline said no, 2 usage or configuration, 3 busy or\n" +
			"halted.",
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRun: func(c *cobra.Command, _ []string) {
			s.configNamed = c.Flags().Changed("config")
		},
	}
	root.PersistentFlags().BoolVar(&s.json, "json", false, "print JSON, one value a line")
	root.PersistentFlags().StringVarP(&s.config, "config", "c", "config.yaml", "configuration file")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%v", err) })
	root.AddCommand(
		s.demoCommand(), s.serveCommand(), s.runCommand(), s.flowCommand(), s.runsCommand(), s.replayCommand(),
		s.mockworldCommand(), s.labelsCommand(), s.deliveriesCommand(), s.configCommand(), s.versionCommand(),
	)
	checkArgs(root)
	return root
}

// checkArgs makes wrong arguments usage errors, and a group without a
// subcommand too.
func checkArgs(c *cobra.Command) {
	if inner := c.Args; inner != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			switch err := inner(c, args); {
			case err != nil && c.HasSubCommands():
				return unknownCommand(c, args[0])
			case err != nil:
				return usage("want `%s`, got %s; see `%s --help`", useLine(c), gotArgs(args), c.CommandPath())
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		checkArgs(sub)
	}
}

// unknownCommand names the command that may be meant.
func unknownCommand(c *cobra.Command, arg string) error {
	var names []string
	for _, sub := range c.Commands() {
		names = append(names, sub.Name())
	}
	hint := strictyaml.DidYouMean(arg, names)
	if hint != "" {
		hint = " (" + hint + ")"
	}
	return usage("unknown command %q for %s%s; see `%s --help`", arg, c.CommandPath(), hint, c.CommandPath())
}

// useLine is how a command is written.
func useLine(c *cobra.Command) string { return strings.TrimSuffix(c.UseLine(), " [flags]") }

// gotArgs is how often a command's arguments were given.
func gotArgs(args []string) string {
	if len(args) == 0 {
		return "no argument"
	}
	return markdown.Count(len(args), "argument") + ": " + strings.Join(args, " ")
}

// group is a command that only holds others.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(c, args[0])
			}
			return usage("%s needs a subcommand; see `%s --help`", c.CommandPath(), c.CommandPath())
		},
	}
	c.AddCommand(subs...)
	return c
}

// emit prints one JSON line.
func (s *shell) emit(v any) {
	s.out.Lock()
	defer s.out.Unlock()
	enc := json.NewEncoder(s.Out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		fmt.Fprintf(s.Err, "pipelinebot: printing: %v\n", err)
	}
}

// load reads the configuration; every problem is a usage error.
func (s *shell) load() (*config.Config, error) {
	cfg, err := config.Load(s.config, s.Env)
	if err != nil {
		return nil, &exitError{ExitUsage, err}
	}
	return cfg, nil
}
