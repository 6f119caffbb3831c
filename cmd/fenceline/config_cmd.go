package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fenceline/fenceline/jobs/secret"
)

func (c *cli) configCmd() *cobra.Command {
	return &cobra.Command{
		Use: "config", Short: "Show every setting, its value and where it comes from",
		Long: "Shows every setting as this command would use it: a flag wins over the environment, the environment over\n" +
			"the configuration file, the file over the default. Secrets are hidden.",
		Example: "  fenceline config\n  fenceline config --config /etc/fenceline.yml --json",
		Args:    exactly(), RunE: func(*cobra.Command, []string) error {
			list := c.conf.settings
			for i := range list {
				if list[i].Secret && list[i].Value != "" {
					list[i].Value = secret.Hidden
				}
			}
			return c.print(list, func(w io.Writer) {
				fmt.Fprintln(w, "SETTING\tVALUE\tFROM\tVARIABLE")
				for _, s := range list {
					from := s.From
					if s.From == fromFile {
						from += " " + s.Where
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Name, orEmpty(s.Value), from, s.Env)
				}
			})
		},
	}
}

func orEmpty(s string) string {
	if s == "" {
		return "–"
	}
	return s
}
