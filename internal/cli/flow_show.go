package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/checkpoints"
	"github.com/pipelinebot/pipelinebot/flows"
	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/flowops"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

func (s *flowShell) showCommand() *cobra.Command {
	var canonical bool
	var run string
	c := &cobra.Command{
		Use: "show [NAME[@N] | FILE]", Short: "Print a flow as written, or what a run or an earlier version was frozen as", Args: cobra.MaximumNArgs(1),
		Long: "show prints the file of the flow that counts for a name, as its author wrote it.\n" +
			"NAME@N is the Nth version that a run was started with (see `flow list\n" +
			"--versions`), and --run what a run has frozen: both are kept in canonical form,\n" +
			"with all defaults and children written out, and are printed as YAML.\n" +
			"--canonical, or --json, prints the canonical form itself, in one line: what a\n" +
			"definition's hash is made of.",
		RunE: func(c *cobra.Command, args []string) error {
			canonical = canonical || s.json
			switch {
			case run == "" && len(args) == 0:
				return usage("say which flow, or which --run")
			case run != "" && len(args) == 1:
				return usage("say which flow or which --run, not both")
			case run != "":
				return s.withReader(c.Context(), func(r app.Reader, _ *config.Config) error {
					got, err := findRun(c.Context(), r, run)
					if err != nil {
						return err
					}
					if sum := sha256.Sum256(got.Definition); hex.EncodeToString(sum[:]) != got.DefinitionHash {
						return said("what run %s has frozen is not what it was started with: its sha256 is %x and should be %s; see pipelinebot runs audit %s",
							got.ID, sum, got.DefinitionHash, got.ID)
					}
					return s.showFrozen(got.Definition, canonical)
				})
			}
			name, n, versioned := strings.Cut(args[0], "@")
			if !versioned || looksLikeFile(args[0]) {
				return s.showFlow(args[0], canonical)
			}
			number, err := strconv.Atoi(n)
			if err != nil || number < 1 {
				return usage("version %q: want a number above 0", n)
			}
			return s.withReader(c.Context(), func(r app.Reader, _ *config.Config) error {
				return s.showVersion(c.Context(), r, name, number, canonical)
			})
		},
	}
	c.Flags().BoolVar(&canonical, "canonical", false, "print the canonical form, in one line")
	c.Flags().StringVar(&run, "run", "", "print what this run has frozen")
	return c
}

func (s *flowShell) showFlow(arg string, canonical bool) error {
	if canonical {
		f, _, err := s.winner(arg)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.Out, "%s\n", f.Definition())
		return err
	}
	if looksLikeFile(arg) {
		src, err := s.read("flow", arg)
		if err == nil {
			_, err = s.Out.Write(src)
		}
		return err
	}
	c, _, err := s.catalog()
	if err != nil {
		return err
	}
	entries := c.List()
	i := slices.IndexFunc(entries, func(e flows.Entry) bool { return e.Name == arg && e.Wins })
	if i < 0 {
		return s.noFlow(arg, c)
	}
	e := entries[i]
	src, err := s.text(e)
	if err == nil {
		_, err = s.Out.Write(src)
	}
	if err == nil && len(e.Problems) > 0 {
		return usage("the flow %s is invalid: `pipelinebot flow check %s` names its %s", arg, arg, markdown.Count(len(e.Problems), "problem"))
	}
	return err
}

// text is a flow's file as written.
func (s *flowShell) text(e flows.Entry) ([]byte, error) {
	if e.Source == app.BuiltInSource {
		return app.BuiltIn()[e.File], nil
	}
	return s.read("flow", filepath.Join(e.Source, filepath.FromSlash(e.File)))
}

// showFrozen prints a definition from the store.
func (s *flowShell) showFrozen(definition []byte, canonical bool) error {
	text := append(slices.Clone(definition), '\n')
	if !canonical {
		var err error
		if text, err = flowops.Readable(definition); err != nil {
			return said("%v", err)
		}
	}
	_, err := s.Out.Write(text)
	return err
}

func (s *flowShell) showVersion(ctx context.Context, r app.Reader, name string, number int, canonical bool) error {
	all, err := r.Versions(ctx, name)
	if err != nil && !errors.Is(err, checkpoints.ErrNotFound) {
		return fmt.Errorf("reading the versions of flow %s: %w", name, err)
	}
	for _, v := range all {
		if v.N == number {
			return s.showFrozen(v.Definition, canonical)
		}
	}
	if len(all) == 0 {
		return usage("flow %s has no versions: no run was started with it", name)
	}
	return usage("flow %s has no version %d; runs were started with %s", name, number, markdown.Count(len(all), "version"))
}
