package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/fenceline/fenceline/storage"
)

// printLab prints each story, and all of them as a table.
func (c *cli) printLab(r labReport) error {
	return c.print(r, func(w io.Writer) {
		for _, run := range r.Runs {
			for _, f := range run.Faults {
				printLabFault(w, run, f)
			}
		}
		printLabTable(w, r.Runs)
		for _, why := range r.NotPlayed {
			fmt.Fprintf(w, "not played: %s\n", why)
		}
	})
}

func printLabFault(w io.Writer, run storage.LabRun, f storage.LabFault) {
	fmt.Fprintf(w, "%s (%s), %s: %s.\n\n", run.Backend, run.Server, f.Fault, f.Title)
	if f.Skipped != "" {
		fmt.Fprintf(w, "Not played: %s.\n\n\n", f.Skipped)
		return
	}
	fmt.Fprintln(w, " SECONDS\tWHO\tWHAT")
	for _, e := range f.Events {
		fmt.Fprintf(w, "%8.3f\t%s\t%s\n", float64(e.AtMS)/1000, e.Who, e.What)
	}
	fmt.Fprintln(w)
	printBeliefs(w, f)
	fmt.Fprintf(w, "\n%s\n\n\n", f.Verdict)
}

// labWide is how many characters a story is wide.
const labWide = 72

// printBeliefs draws who believed to hold the lease, and when.
func printBeliefs(w io.Writer, f storage.LabFault) {
	end := max(f.Events[len(f.Events)-1].AtMS, 1)
	for _, who := range []string{labA, labB} {
		line := []rune(strings.Repeat("·", labWide))
		for _, b := range f.Beliefs {
			if b.Who != who {
				continue
			}
			for i := b.FromMS * (labWide - 1) / end; i <= b.ToMS*(labWide-1)/end; i++ {
				line[max(i, 0)] = '█'
			}
		}
		fmt.Fprintf(w, "%s\t%s\n", who, string(line))
	}
}

// labColumns are the heads of the table.
func labColumns() []string {
	return []string{"backend", "A freezes", "A is killed", "A is cut off", "failover", "A's late release", "without the fence", "with the fence"}
}

// labRow is a backend in the table.
func labRow(run storage.LabRun) []string {
	cells := map[string]string{}
	without, with := "", ""
	for _, f := range run.Faults {
		cells[f.Fault] = labCell(run.LeaseMS, f)
		if f.Skipped == "" && f.Lost {
			without = fmt.Sprintf("%d: B's update is lost", f.Unfenced)
		}
		if f.Skipped == "" && (with == "" || !f.Right) {
			with = fmt.Sprintf("%d: A is refused", f.Fenced)
			if !f.Right {
				with = fmt.Sprintf("%d: BROKEN", f.Fenced)
			}
		}
	}
	row := []string{run.Backend}
	for _, f := range labFaults() {
		row = append(row, cells[f.name])
	}
	return append(row, without, with)
}

func printLabTable(w io.Writer, runs []storage.LabRun) {
	fmt.Fprintln(w, strings.ToUpper(strings.Join(labColumns(), "\t")))
	for _, run := range runs {
		fmt.Fprintln(w, strings.Join(labRow(run), "\t"))
	}
}
