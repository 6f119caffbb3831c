package web

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/storage"
)

// maxNumbersShown bounds the voided and the missing numbers that a page lists.
const maxNumbersShown = 200

// seriesView is the page of a series of numbers.
type seriesView struct {
	storage.Numbers
	Missed []missedNumbers // with their prefixes
	Cut    bool            // there are more voided or missing numbers than are shown
}

// missedNumbers is a run of numbers that no document has.
type missedNumbers struct{ From, To string }

// Given is how many numbers were given out.
func (v seriesView) Given() int64 { return v.Next - v.First }

// Void is how many of them were taken back.
func (v seriesView) Void() int64 { return v.Given() - v.Used - v.Lost() }

// Lost is how many numbers no document has.
func (v seriesView) Lost() (n int64) {
	for _, m := range v.Missing {
		n += m.To - m.From + 1
	}
	return n
}

// NextNumber is the number that the next document gets.
func (v seriesView) NextNumber() string { return invoiceNumber(v.Series, v.Next) }

// invoiceNumber is how a number of a series is written.
func invoiceNumber(n storage.Series, number int64) string {
	return fmt.Sprintf("%s%0*d", n.Prefix, n.Digits, number)
}

// seriesPage accounts for every number of a series: ?tenant= for those who see all.
func (s *Server) seriesPage(w http.ResponseWriter, r *http.Request) error {
	tenant, err := tenantFor(of(r).principal, r.URL.Query().Get("tenant"))
	if err != nil {
		return err
	}
	numbers, err := s.store.NumbersOf(r.Context(), cmp.Or(tenant, jobs.DefaultTenant), r.PathValue("name"))
	if err != nil {
		return err
	}
	v := seriesView{Numbers: numbers}
	for _, m := range numbers.Missing[:min(len(numbers.Missing), maxNumbersShown)] {
		v.Missed = append(v.Missed, missedNumbers{invoiceNumber(numbers.Series, m.From), invoiceNumber(numbers.Series, m.To)})
	}
	v.Cut = len(numbers.Missing) > maxNumbersShown || len(numbers.Voided) > maxNumbersShown
	return s.render(w, r, http.StatusOK, "series", v)
}

// ShownVoided are the voided numbers that the page lists.
func (v seriesView) ShownVoided() []storage.Voided {
	return v.Voided[:min(len(v.Voided), maxNumbersShown)]
}
