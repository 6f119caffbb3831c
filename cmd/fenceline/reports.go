package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/count"
	"github.com/fenceline/fenceline/jobs/report"
)

// reportFlags are how a report is asked for.
type reportFlags struct {
	params []string
	choice report.Choice
	strict bool
}

func (f *reportFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.params, "param", nil, "a parameter as name=value; may be repeated")
	flags.StringSliceVar(&f.choice.Formats, "format", nil, "csv, xlsx, jsonl or parquet; csv and jsonl also with .gz or .zst; several with commas (default: as the report says)")
	flags.StringVar(&f.choice.Preset, "preset", "", "how CSV is written: data (for programs) or spreadsheet (for Excel)")
	flags.StringVar(&f.choice.Locale, "locale", "", "whose spreadsheet it is, such as de-DE")
	flags.StringVar(&f.choice.Delimiter, "delimiter", "", "between the fields of CSV: , ; | or tab")
	flags.StringVar(&f.choice.Zone, "zone", "", "time zone of the report, such as Europe/Berlin")
	flags.BoolVar(&f.strict, "strict", false, "fail where a value would be cut, replaced or turned into text")
}

// chosen is the choice with --strict where it was given.
func (f *reportFlags) chosen(flags *pflag.FlagSet) report.Choice {
	c := f.choice
	if flags.Changed("strict") {
		c.Strict = &f.strict
	}
	return c
}

// formatOf is the format that a file's name asks for, if it does: orders.csv.gz.
func formatOf(output string) []string {
	formats, err := report.NewFormats()
	if err != nil {
		return nil
	}
	for _, name := range formats.Names() {
		if strings.HasSuffix(output, "."+name) {
			return []string{name}
		}
	}
	return nil
}

// payload is that of a job of kind report.
func (f *reportFlags) payload(name string, flags *pflag.FlagSet) (json.RawMessage, error) {
	values, err := parseParams(f.params)
	if err != nil {
		return nil, err
	}
	return rawJSON(jobs.ReportPayload{Report: name, Params: values, Choice: f.chosen(flags)})
}

func (c *cli) reportCmd() *cobra.Command {
	return group("report", "Reports", c.reportListCmd(), c.reportCheckCmd(), c.reportPreviewCmd())
}

func (c *cli) reportListCmd() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the reports that can be dispatched", Args: exactly(), RunE: func(*cobra.Command, []string) error {
		defs, broken := newCatalog(c.conf).List()
		type line struct {
			Name        string         `json:"name"`
			Title       string         `json:"title"`
			Description string         `json:"description,omitempty"`
			Formats     []string       `json:"formats"`
			Params      []report.Param `json:"params"`
		}
		lines := make([]line, 0, len(defs))
		for _, d := range defs {
			lines = append(lines, line{d.Name, d.Title, d.Description, d.Formats, append([]report.Param{}, d.Params...)})
		}
		err := c.print(lines, func(w io.Writer) {
			fmt.Fprintln(w, "REPORT\tTITLE\tFORMATS\tPARAMETERS")
			for _, d := range defs {
				fmt.Fprintf(w, "%s\t%s\t%s\t", d.Name, d.Title, strings.Join(d.Formats, ","))
				for _, p := range d.Params {
					need := ""
					if p.Required {
						need = "!"
					}
					typ := string(p.Type)
					if p.Type == report.List {
						typ = fmt.Sprintf("list(%s)", p.Elem)
					}
					fmt.Fprintf(w, "%s%s:%s ", p.Name, need, typ)
				}
				fmt.Fprintln(w)
			}
		})
		return errors.Join(err, broken)
	}}
}

func (c *cli) reportCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use: "check [NAME]", Short: "Plan every report against its database and print columns, types and mistakes",
		Long: "Plans every report, or the named one, against the database that it reads from; nothing is run.\nPrints columns, types and mistakes with file and line, and exits with 1 when there is a mistake.",
		Args: asUsed(0, 1), RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			return c.withApp(cmd.Context(), func(ctx context.Context, a *app) error {
				checked, err := a.reports.Check(ctx, name)
				return errors.Join(c.printChecked(checked), err, wrongReports(checked))
			})
		},
	}
}

// wrongReports is the error for the mistakes that were printed; nil for none.
func wrongReports(checked []jobs.CheckedReport) error {
	mistakes, reports := 0, 0
	for _, r := range checked {
		if mistakes += len(r.Mistakes); len(r.Mistakes) > 0 {
			reports++
		}
	}
	if mistakes == 0 {
		return nil
	}
	return &coded{exitFailed, fmt.Errorf("%s in %d of %s", count.Of(mistakes, "mistake"), reports, count.Of(len(checked), "report"))}
}

func (c *cli) printChecked(checked []jobs.CheckedReport) error {
	for i := range checked {
		checked[i].Mistakes, checked[i].Warnings = some(checked[i].Mistakes), some(checked[i].Warnings)
	}
	return c.print(checked, func(w io.Writer) {
		for i, r := range checked {
			if i > 0 {
				fmt.Fprintln(w)
			}
			fmt.Fprintf(w, "%s\t%s\n", r.Name, r.Title)
			for _, col := range r.Columns {
				label := ""
				switch {
				case col.Hidden:
					label = "hidden"
				case col.Label != col.Name:
					label = fmt.Sprintf("%q", col.Label)
				}
				fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", col.Name, col.Type, col.Kind, label)
			}
			for _, m := range r.Mistakes {
				fmt.Fprintf(w, "  mistake: %s\n", m)
			}
			for _, n := range r.Warnings {
				fmt.Fprintf(w, "  warning: %s\n", report.Explain(n))
			}
		}
	})
}

func (c *cli) reportPreviewCmd() *cobra.Command {
	var f reportFlags
	var rows int
	var tenant string
	cmd := &cobra.Command{
		Use: "preview NAME", Short: "Show the first rows of a report; nothing is stored",
		Example: "  fenceline report preview orders --param from=2026-01-01 --param to=2026-02-01 --rows 10",
		Args:    exactly("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
			if rows < 1 || rows > 1000 {
				return usageError("--rows %d: must be from 1 to 1000", rows)
			}
			values, err := parseParams(f.params)
			if err != nil {
				return err
			}
			return c.withApp(cmd.Context(), func(ctx context.Context, a *app) error {
				page, err := a.reports.Preview(ctx, tenant, args[0], values, f.chosen(cmd.Flags()), rows)
				if err != nil {
					return err
				}
				return c.print(page, func(w io.Writer) { printPage(w, page) })
			})
		},
	}
	f.register(cmd.Flags())
	cmd.Flags().IntVar(&rows, "rows", 10, "how many rows at most")
	cmd.Flags().StringVar(&tenant, "tenant", jobs.DefaultTenant, "whose rows they are")
	return cmd
}

func printPage(w io.Writer, p report.Page) {
	for i, col := range p.Columns {
		if i > 0 {
			fmt.Fprint(w, "\t")
		}
		fmt.Fprint(w, inCell(col.Label))
	}
	fmt.Fprintln(w)
	for _, row := range p.Rows {
		for i, v := range row {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			if v != nil {
				fmt.Fprint(w, inCell(*v))
			} else {
				fmt.Fprint(w, "·")
			}
		}
		fmt.Fprintln(w)
	}
	switch {
	case len(p.Rows) == 0:
		fmt.Fprintln(w, "no rows")
	case p.About != nil:
		fmt.Fprintf(w, "there are more rows, about %d in all\n", *p.About)
	case p.More:
		fmt.Fprintln(w, "there are more rows")
	}
}

// inCellWhole keeps a text on its line of a terminal: no control characters.
func inCellWhole(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '␣'
		}
		return r
	}, s)
}

// inCell keeps a value in its cell of a terminal: no control characters, not endless.
func inCell(s string) string {
	s = inCellWhole(s)
	if utf8.RuneCountInString(s) > 40 {
		s = string([]rune(s)[:39]) + "…"
	}
	return s
}
