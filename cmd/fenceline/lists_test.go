package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/storage"
)

// The order of a lease has a column as soon as a lock service gave one.
func TestAttemptsAreListedWithTheOrderOfTheirLease(t *testing.T) {
	t.Parallel()
	table := func(attempts ...storage.Attempt) []string {
		var out bytes.Buffer
		attemptTable(&out, attempts)
		return strings.Split(out.String(), "\n")
	}
	plain := storage.Attempt{Token: 16, State: storage.AttemptFenced}
	under := storage.Attempt{Token: 17, State: storage.AttemptRunning, LeaseOrder: storage.LeaseOrder{Name: "revision", Number: 4211}}
	if got := table(plain); !strings.HasPrefix(got[0], "TOKEN\tSTATE") || !strings.HasPrefix(got[1], "16\tfenced\t") {
		t.Errorf("without: %q", got)
	}
	got := table(under, plain)
	if !strings.HasPrefix(got[0], "TOKEN\tLEASE\tSTATE") || !strings.HasPrefix(got[1], "17\trevision 4211\trunning\t") || !strings.HasPrefix(got[2], "16\t-\tfenced\t") {
		t.Errorf("with: %q", got)
	}
	if a, b := tokenOf(plain), tokenOf(under); a != "token 16" || b != "token 17 · revision 4211" {
		t.Errorf("%q, %q", a, b)
	}
	d := &drill{timeline: &timeline{cli: &cli{}}, plan: drillPlan{jobs: 1}}
	d.noteBegun(under)
	d.noteBegun(plain)
	if a, b := d.events[0].What, d.events[1].What; a != "took the lease (revision 4211) and the job" || b != "took the lease and the job" {
		t.Errorf("a drill tells %q and %q", a, b)
	}
}
