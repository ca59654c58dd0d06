package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pipelinebot/pipelinebot/internal/app"
	"github.com/pipelinebot/pipelinebot/internal/config"
	"github.com/pipelinebot/pipelinebot/internal/strictyaml"
	"github.com/pipelinebot/pipelinebot/phases/markdown"
)

func (s *shell) configCommand() *cobra.Command {
	check := &cobra.Command{
		Use: "check", Short: "Check the configuration and name every problem", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return s.configCheck() },
	}
	show := &cobra.Command{
		Use: "print", Short: "Print the configuration in force, secrets as stars", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return s.configPrint() },
	}
	schema := &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of config.yaml for editors", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			out, err := config.Schema()
			if err == nil {
				_, err = s.Out.Write(out)
			}
			return err
		},
	}
	return group("config", "Check and print the configuration", check, show, schema)
}

func (s *shell) configCheck() error {
	cfg, err := config.Load(s.config, s.Env)
	var problems strictyaml.Problems
	if s.json && errors.As(err, &problems) {
		for _, p := range problems {
			s.emit(p)
		}
		return usage("%s in %s", markdown.Count(len(problems), "problem"), s.config)
	}
	if err != nil {
		return &exitError{ExitUsage, err}
	}
	if err := app.CheckFlows(cfg.FlowsDir); err != nil {
		return usage("%s: flows_dir: %v", cfg.Path, err)
	}
	doubts := app.ModelDoubts(cfg)
	if s.json {
		s.emit(map[string]any{"ok": true, "file": cfg.Path, "doubts": doubts})
		return nil
	}
	fmt.Fprintf(s.Out, "%s is fine: %s, %s, data in %s\n", cfg.Path,
		markdown.Count(len(cfg.Repositories), "repository"), markdown.Count(cfg.Workers, "worker"), cfg.DataDir)
	for _, d := range doubts {
		fmt.Fprintf(s.Out, "but: %s\n", d)
	}
	return nil
}

func (s *shell) configPrint() error {
	cfg, err := s.load()
	if err != nil {
		return err
	}
	if s.json {
		v, err := cfg.View()
		if err != nil {
			return err
		}
		s.emit(v)
		return nil
	}
	out, err := cfg.YAML()
	if err != nil {
		return err
	}
	_, err = s.Out.Write(out)
	return err
}
