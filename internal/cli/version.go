package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (s *shell) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := version()
			if s.json {
				s.emit(v)
				return nil
			}
			fmt.Fprintf(s.Out, "pipelinebot %s (%s, %s)\n", v["version"], v["go"], v["platform"])
			return nil
		},
	}
}

func version() map[string]string {
	v := map[string]string{"version": "devel", "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" && info.Main.Version != "(devel)" {
			v["version"] = info.Main.Version
		}
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				v["revision"] = setting.Value
			}
		}
	}
	return v
}
