package invoice

import (
	"encoding/json"
	"strings"
)

// maxShort bounds names that are codes or nearly so.
const maxShort = 50

func (r *reader) party(path string, tok json.Token, p *Party) {
	fields, placed := r.partyFields(p), false
	for i, f := range fields {
		if f.name == "address" || f.name == "postal" {
			fields[i].read = func(path string, t json.Token) {
				placed = true
				f.read(path, t)
			}
		}
	}
	r.object(path, tok, fields)
	if tok == json.Delim('{') && !placed {
		r.add(join(path, "address"), "", `is missing; write the printed lines, or "postal" with the parts of the address`)
	}
}

func (r *reader) partyFields(p *Party) []field {
	return []field{
		{"name", true, func(path string, t json.Token) { p.Name = r.text(path, t, maxName) }},
		{"trading_name", false, func(path string, t json.Token) { p.TradingName = r.text(path, t, maxName) }},
		{"address", false, func(path string, t json.Token) { p.Address = r.address(path, t) }},
		{"postal", false, func(path string, t json.Token) { r.object(path, t, r.postalFields(&p.Postal)) }},
		{"tax_id", false, func(path string, t json.Token) { p.TaxID = r.text(path, t, maxTaxID) }},
		{"vat_id", false, func(path string, t json.Token) { p.VATID = r.vatID(path, t) }},
		{"identifier", false, func(path string, t json.Token) { p.Identifier = r.identifier(path, t, icdScheme()) }},
		{"registration", false, func(path string, t json.Token) { p.Registration = r.identifier(path, t, icdScheme()) }},
		{"electronic_address", false, func(path string, t json.Token) { p.Electronic = r.identifier(path, t, easScheme()) }},
		{"contact", false, func(path string, t json.Token) { r.object(path, t, r.contactFields(&p.Contact)) }},
		{"email", false, func(path string, t json.Token) { p.Email = r.email(path, t) }},
	}
}

// address reads an address as printed.
func (r *reader) address(path string, tok json.Token) []string {
	return r.texts(path, tok, maxAddressLines)
}

func (r *reader) texts(path string, tok json.Token, limit int) []string {
	var lines []string
	r.list(path, tok, limit, func(path string, t json.Token) {
		lines = append(lines, r.text(path, t, maxAddressLine))
	})
	return lines
}

func (r *reader) postalFields(p *Postal) []field {
	return []field{
		{"street", false, func(path string, t json.Token) { p.Street = r.texts(path, t, 3) }},
		{"city", false, func(path string, t json.Token) { p.City = r.text(path, t, maxAddressLine) }},
		{"postal_code", false, func(path string, t json.Token) { p.Code = r.text(path, t, maxShort) }},
		{"subdivision", false, func(path string, t json.Token) { p.Subdivision = r.text(path, t, maxAddressLine) }},
		{"country", true, func(path string, t json.Token) { p.Country = r.country(path, t) }},
	}
}

func (r *reader) country(path string, tok json.Token) string {
	return r.code(path, tok, isCountry, `a country code of ISO 3166-1 in two capitals, such as "DE"`)
}

func (r *reader) contactFields(c *Contact) []field {
	return []field{
		{"name", false, func(path string, t json.Token) { c.Name = r.text(path, t, maxName) }},
		{"phone", false, func(path string, t json.Token) { c.Phone = r.text(path, t, maxShort) }},
		{"email", false, func(path string, t json.Token) { c.Email = r.email(path, t) }},
	}
}

// scheme is what the scheme of an identifier may be.
type scheme struct {
	required bool
	known    func(string) bool
	want     string
}

// icdScheme is a register of ISO 6523.
func icdScheme() scheme {
	return scheme{false, isICD, `the four digits of a register of ISO 6523, such as "0088" for GLN`}
}

// needICD is icdScheme where a number alone says nothing (BR-64).
func needICD() scheme {
	s := icdScheme()
	s.required = true
	return s
}

// easScheme is a kind of address for e-invoices (BR-62, BR-63).
func easScheme() scheme {
	return scheme{true, func(s string) bool {
		return isICD(s) || s == "EM" || s == "AQ" || s == "AS" || s == "AU"
	}, `a code of the list of electronic address schemes, such as "0088" for GLN or "EM" for a mail address`}
}

func isICD(s string) bool { return len(s) == 4 && onlyDigits(s) }

func (r *reader) identifier(path string, tok json.Token, s scheme) Identifier {
	var id Identifier
	r.object(path, tok, []field{
		{"id", true, func(path string, t json.Token) { id.ID = r.text(path, t, maxName) }},
		{"scheme", s.required, func(path string, t json.Token) { id.Scheme = r.code(path, t, s.known, s.want) }},
	})
	return id
}

// vatID reads an identifier for VAT: the country's code goes before it (BR-CO-9).
func (r *reader) vatID(path string, tok json.Token) string {
	return r.code(path, tok, isVATID, `a VAT identifier: the country's code (EL for Greece) and then the number, without spaces, `+
		`such as "DE123456789" (EN 16931 BR-CO-9); a number without the country goes into tax_id`)
}

func isVATID(s string) bool {
	if len(s) < 4 || len(s) > 17 || !isCountry(s[:2]) && s[:2] != "EL" {
		return false
	}
	rest := s[2:]
	return capitalsAndDigits(strings.NewReplacer("+", "", "*", "").Replace(rest)) && strings.ContainsAny(rest, "0123456789")
}

// code reads a short name that known takes.
func (r *reader) code(path string, tok json.Token, known func(string) bool, want string) string {
	text, ok := tok.(string)
	switch {
	case !ok:
		r.refuse(path, tok, want)
	case !known(text):
		r.add(path, text, "is not %s", want)
	default:
		return text
	}
	return ""
}
