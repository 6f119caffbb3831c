package invoice

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fenceline/fenceline/jobs/invoice/typeset"
)

// sample is an invoice in the language of a locale.
func sample(tb testing.TB, tag string) []byte {
	tb.Helper()
	all := map[string]struct {
		issuer, customer, currency string
		items                      [3]string
	}{
		"en": {"Northlight Workshop Ltd", "Harbour & Sons", "GBP", [3]string{
			"Round table in oiled oak, 90 cm, with a base of blackened steel; assembled on site, packaging taken back", "Chair “Ærø”, beech", "Book"}},
		"de": {"Nordlicht Werkstatt für Möbel GmbH", "Käthe Größl & Söhne", "EUR", [3]string{
			"Runder Tisch aus geölter Eiche, 90 cm, Gestell aus geschwärztem Stahl; Aufbau vor Ort", "Stuhl „Ærø“, Buche", "Buch"}},
		"fr": {"Atelier de l’Étoile SARL", "Café Ærø", "EUR", [3]string{
			"Table ronde en chêne huilé, 90 cm, piétement en acier noirci ; montage sur place", "Chaise « Ærø », hêtre", "Livre"}},
		"es": {"Taller Ñandú S. L.", "José Núñez", "EUR", [3]string{
			"Mesa redonda de roble aceitado, 90 cm, con base de acero; montaje incluido", "Silla «Ærø», haya", "Libro"}},
		"bn": {"শান্তিনিকেতন হস্তশিল্প লিমিটেড", "ঢাকা বুক হাউস", "BDT", [3]string{
			"হাতে বোনা জামদানি শাড়ি, সূক্ষ্ম নকশা, সুতি ও রেশমের মিশ্রণ; উপহারের মোড়কসহ সরবরাহ", "রবীন্দ্র রচনাবলী (১৮ খণ্ড)", "ক্যালেন্ডার"}},
		"hi": {"राष्ट्रीय पुस्तक भंडार", "श्रीमती अनुष्का शर्मा", "INR", [3]string{
			"हाथ से बुनी हुई रेशमी साड़ी, बारीक ज़री का काम, उपहार पैकिंग सहित; दिल्ली में निःशुल्क वितरण", "हिन्दी शब्दकोश, द्वितीय संस्करण", "कैलेंडर"}},
		"mr": {"पुणे हस्तकला केंद्र", "श्री. बाळकृष्ण कुलकर्णी", "INR", [3]string{
			"पैठणी साडी, हातमागावर विणलेली, जरीचा बारीक काठ, भेटवस्तूच्या वेष्टनासह; घरपोच सेवा", "मराठी विश्वकोश, खंड पहिला", "दिनदर्शिका"}},
		"ar": {"شركة النور للتجارة", "مؤسسة الأمل (ش.م.م)", "SAR", [3]string{
			"طاولة مستديرة من خشب البلوط المزيت، 90 سم، بقاعدة من الفولاذ؛ التركيب في الموقع", "كرسي Ærø من خشب الزان", "كتاب"}},
	}
	s, ok := all[tag]
	if !ok {
		tb.Fatalf("there is no sample in %s", tag)
	}
	var lines []any
	for i := range 6 {
		l := with(line(s.items[i%3], []string{"1", "4.5", "12"}[i%3], fmt.Sprintf("%d.%02d", 1389/(i+1), i*7), []string{"19", "19", "7"}[i%3]), "unit", "pcs")
		if i == 1 {
			l["discount_percent"] = "10"
		}
		lines = append(lines, l)
	}
	return simple(tb, object{
		"number": "2026-0042", "locale": tag, "currency": s.currency, "lines": lines, "prepaid": "100", "notes": s.items[1],
		"issuer":   object{"name": s.issuer, "address": []any{"17 Long Road", "22763 Hamburg"}, "tax_id": "DE123-456-789", "email": "billing@sender.example"},
		"customer": object{"name": s.customer, "address": []any{"12 bis, rue de l’Église", "67000 Strasbourg"}},
		"payment":  object{"iban": "DE89370400440532013000", "bic": "COBADEFFXXX", "reference": "2026-0042"},
		"logo":     base64.StdEncoding.EncodeToString(testLogo(tb)),
	})
}

func sampleTags() []string { return []string{"en", "de", "fr", "es", "bn", "hi", "mr", "ar"} }

func renderer(tb testing.TB, o Options) *Renderer {
	tb.Helper()
	r, err := NewRenderer(o)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// writeWith renders d by r into a file of its own.
func writeWith(tb testing.TB, r *Renderer, d *Document) (string, Report) {
	tb.Helper()
	var buf bytes.Buffer
	report, err := r.WritePDF(&buf, d)
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(tb.TempDir(), "invoice.pdf")
	if err := os.WriteFile(path, buf.Bytes(), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path, report
}

// readLines are the lines of a PDF as they are read, without the marks of
// direction that pdftotext adds to text from right to left.
func readLines(tb testing.TB, path string) []string {
	tb.Helper()
	marks := strings.NewReplacer("\u202a", "", "\u202b", "", "\u202c", "", "\u200e", "", "\u200f", "", "\f", "")
	var lines []string
	for l := range strings.SplitSeq(run(tb, "pdftotext", path, "-"), "\n") {
		if l = strings.TrimSpace(marks.Replace(l)); l != "" {
			lines = append(lines, l)
		}
	}
	return lines
}

// Cases 32 and 33, and all of their kind: what was put in comes out, to the
// letter, from conjuncts, joined letters, marks and mixed directions.
func TestTextOfEveryScriptComesBack(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, locale string
		lines        []string
	}{
		{"Latin", "en", []string{"office affluent fjord “quoted” – Größe, Œuvre, İstanbul, Čeština", "Nguyễn Thị Phương Thảo, Łódź", "x\u0301 q\u0303"}},
		{"Greek and Cyrillic", "en", []string{"Αναστασία Παπαδοπούλου, Ἀθῆναι", "Съешь же ещё этих мягких булок, Київ, Ђорђе"}},
		{"Bengali", "bn", []string{"শান্তিনিকেতন হস্তশিল্প লিমিটেড", "রবীন্দ্রনাথ ঠাকুরের কাব্যগ্রন্থ: ক্ষ্ম ও শ্রী", "কৃষ্ণচূড়া, বর্ষা, কর্তৃপক্ষ ৳ ১২,৩৪৫.৬৭", "ব্যাংক র\u200d্যাব কোং"}},
		{"Hindi", "hi", []string{"राष्ट्रीय पुस्तक भंडार", "हिन्दी में लक्ष्मी, शक्ति और धर्मार्थ कार्य", "क्षत्रिय ज्ञान श्रृंखला ₹ १,२३४.५०", "क्\u200dष और क्\u200cष"}},
		{"Marathi", "mr", []string{"श्री. बाळकृष्ण कुलकर्णी, पुणे ४११००४", "नोव्हेंबर, ऑक्टोबर, सप्टेंबर"}},
		{"Arabic", "ar", []string{"شركة النور للتجارة", "الفولاذ والأمل في الإسكندرية لا إله", "مقدمًا مُحَمَّد ؟", "مرحبا"}},
		{"Hebrew", "en", []string{"שלום עולם", "חשבונית מס", "שָׁלוֹם"}},
		{"mixed directions", "en", []string{"for شركة النور in Cairo", "to שלום בעמ of Haifa, 1,250.50 EUR"}},
		{"mixed directions in Arabic", "ar", []string{"فاتورة 90 سم خصم 5", "كرسي Ærø من خشب"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path, report := write(t, parse(t, simple(t, object{"locale": tt.locale, "notes": strings.Join(tt.lines, "\n")})))
			if len(report.Warnings) > 0 {
				t.Errorf("warnings: %q", report.Warnings)
			}
			got := readLines(t, path)
			same := func(s string) string { return s }
			if strings.HasPrefix(tt.name, "mixed") { // there pdftotext puts some spaces on the other side of a word
				same = func(s string) string { return strings.ReplaceAll(s, " ", "") }
			}
			for _, want := range tt.lines {
				if !slices.ContainsFunc(got, func(l string) bool { return same(l) == same(want) }) {
					t.Errorf("%+q is not among\n%s\n%+q", want, strings.Join(got, "\n"), got)
				}
			}
		})
	}
}

// Every sample is sound, in both layouts, with its labels and its text.
func TestSamplesInEveryLanguage(t *testing.T) {
	t.Parallel()
	for _, tag := range sampleTags() {
		for _, layout := range []string{LayoutClassic, LayoutModern} {
			t.Run(tag+" "+layout, func(t *testing.T) {
				t.Parallel()
				d := parse(t, sample(t, tag))
				path, report := writeWith(t, renderer(t, Options{Style: Style{Layout: layout}, Strict: true}), d)
				if len(report.Warnings) > 0 {
					t.Errorf("warnings: %q", report.Warnings)
				}
				mustHold(t, run(t, "qpdf", "--check", path), "No syntax or stream encoding errors found")
				got, l := readLines(t, path), d.locale()
				squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") } // see above
				whole := strings.Join(got, "\n")
				steering := strings.NewReplacer("\u061c", "", "\u200e", "", "\u200f", "", "\u2068", "", "\u2069", "")
				for _, want := range []string{d.Customer.Name, d.Issuer.Name, d.Lines[1].Description, l.net, l.amountDue, l.description, l.payment,
					steering.Replace(l.money(d.Totals().Due, d.Currency)), steering.Replace(l.fixed(d.Totals().Taxes[0].Tax, d.Currency.Minor).text),
					l.day(d.IssueDate), l.page(1, report.Pages), "DE123-456-789"} {
					if !strings.Contains(squeeze(whole), squeeze(want)) {
						t.Errorf("%+q is not in\n%s", want, whole)
					}
				}
				if title := squeeze(steering.Replace(d.Title())); layout == LayoutClassic && strings.Count(squeeze(whole), title) != 1+report.Pages {
					t.Errorf("%+q is not the title and at the foot of every page in\n%s", title, whole)
				}
				for i, p := range boxes(t, path) {
					for n := range p.Words { // the boxes have the fonts' height, which is more than the letters'
						w := &p.Words[n]
						height := w.YMax - w.YMin
						w.YMin, w.YMax = w.YMin+0.3*height, w.YMax-0.3*height
					}
					checkPage(t, i+1, p)
				}
			})
		}
	}
}

// Case 33: what no font has is counted, by field, and refused on demand.
func TestMissingCharactersAreReported(t *testing.T) {
	t.Parallel()
	d := parse(t, simple(t, object{
		"customer": object{"name": "株式会社キマイ", "address": []any{"Road 2"}},
		"lines":    []any{with(line("ok 😀 "+strings.Repeat("long text ", 30)+"終", "1", "1", "19"), "unit", "個")},
	}))
	path, report := write(t, d)
	want := []string{
		`customer.name: 7 characters are in no font: U+682A 株 (Han), U+5F0F 式 (Han), U+4F1A 会 (Han), U+793E 社 (Han), U+30AD キ (Katakana), U+30DE マ (Katakana), U+30A4 イ (Katakana) in "株式会社キマイ"`,
		`lines[0].unit: 1 character is in no font: U+500B 個 (Han) in "個"`,
		`lines[0].description: 2 characters are in no font: U+1F600 😀, U+7D42 終 (Han) in "ok 😀 long text long text long text long…"`,
	}
	if !slices.Equal(report.Warnings, want) || report.Missing != 10 {
		t.Errorf("%d are missing:\n%s\nwant\n%s", report.Missing, strings.Join(report.Warnings, "\n"), strings.Join(want, "\n"))
	}
	mustHold(t, text(t, path), "株式会社キマイ") // it can still be copied
	var out bytes.Buffer
	_, err := renderer(t, Options{Strict: true}).WritePDF(&out, d)
	if !errors.Is(err, ErrMissing) || out.Len() > 0 || !strings.Contains(err.Error(), "customer.name: 7 characters") {
		t.Errorf("a strict renderer wrote %d bytes, error %v", out.Len(), err)
	}
	_, report = write(t, parse(t, simple(t, object{"number": "A-終"}))) // printed in several places
	if report.Missing != 1 || len(report.Warnings) != 1 {
		t.Errorf("%d are missing from the number: %q", report.Missing, report.Warnings)
	}
	many := make([]any, 30)
	for i := range many {
		many[i] = line("終", "1", "1", "19")
	}
	_, report = write(t, parse(t, simple(t, object{"lines": many})))
	if n := len(report.Warnings); report.Missing != 30 || n != 21 || !strings.Contains(report.Warnings[20], "10 more fields") {
		t.Errorf("%d missing, warnings %q", report.Missing, report.Warnings)
	}
}

// A font of the caller's is used where the others lack a character.
func TestFontsOfTheCaller(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kana.ttf")
	if err := os.WriteFile(path, kanaFont(t), 0o600); err != nil {
		t.Fatal(err)
	}
	fonts, err := LoadFonts(path)
	if err != nil {
		t.Fatal(err)
	}
	d := parse(t, simple(t, object{"customer": object{"name": "Hotel キマイ", "address": []any{"Road 2"}}}))
	path, report := writeWith(t, renderer(t, Options{Fonts: fonts, Strict: true}), d)
	if report.Missing > 0 {
		t.Errorf("%d characters are missing", report.Missing)
	}
	mustHold(t, text(t, path), "Hotel キマイ")
	for _, bad := range []string{"none.ttf", "README.md"} {
		path := filepath.Join("fonts", bad)
		if _, err := LoadFonts(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v", bad, err)
		}
	}
}

// kanaFont is a font of ours that says it has katakana: its character map is
// replaced by one for U+30A0 to U+30FF.
func kanaFont(tb testing.TB) []byte {
	tb.Helper()
	data, err := fontFiles.ReadFile("fonts/NotoSansHebrew-Regular.ttf")
	if err != nil {
		tb.Fatal(err)
	}
	put := binary.BigEndian.AppendUint32
	table := []byte{0, 0, 0, 1, 0, 3, 0, 10, 0, 0, 0, 12, 0, 12, 0, 0} // one table for Unicode, of format 12
	table = put(put(put(table, 28), 0), 1)
	table = put(put(put(table, 0x30A0), 0x30FF), 20)
	at := bytes.Index(data[:512], []byte("cmap"))
	binary.BigEndian.PutUint32(data[at+8:], uint32(len(data)))
	binary.BigEndian.PutUint32(data[at+12:], uint32(len(table)))
	return append(data, table...)
}

// An Arabic page begins at the right.
func TestRightToLeftPagesAreMirrored(t *testing.T) {
	t.Parallel()
	for _, layout := range []string{LayoutClassic, LayoutModern} {
		path, _ := writeWith(t, renderer(t, Options{Style: Style{Layout: layout}}), parse(t, sample(t, "ar")))
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		mustHold(t, string(data), "/Direction/R2L", "/Lang(ar)")
		page := boxes(t, path)[0]
		row := 0.0
		at := func(text string) word {
			for _, w := range page.Words {
				letters := []rune(w.Text)
				slices.Reverse(letters) // here they are in the order of the eye
				if string(letters) == text && (row == 0 || w.YMin > row-1 && w.YMin < row+1) {
					row = w.YMin
					return w
				}
			}
			t.Fatalf("%s: %q is not on the page", layout, text)
			return word{}
		}
		description, quantity, amount := at("الوصف"), at("الكمية"), at("المبلغ")
		if !(description.XMin > quantity.XMax && quantity.XMin > amount.XMax) || description.XMax < page.Width-80 || amount.XMin > 80 {
			t.Errorf("%s: the columns are at %v, %v, %v", layout, description, quantity, amount)
		}
	}
}

// A number keeps its place in its column when the page is mirrored.
func TestBoxesAreMirroredAsAWhole(t *testing.T) {
	t.Parallel()
	f := flow{width: 600}
	p := piece{x: 430, st: style{size: 10}, line: typeset.Line{Width: 1.5}}
	if f.at(p) != 430 || f.at(p.in(400, 450)) != 430 {
		t.Error("pages from left to right are changed")
	}
	f.mirrored = true
	if x := f.at(p); x != 600-430-15 {
		t.Errorf("text is at %g", x)
	}
	if x := f.at(p.in(400, 450)); x != 150+30 {
		t.Errorf("a number is at %g", x)
	}
	l := newLayout(&Document{Locale: "ar"}, Style{}, nil, &worker{setter: typeset.NewSetter(builtin(t))})
	c := l.newNumberColumn("Price", l.plain(9))
	c.right = 200
	c.measure(l, l.plain(9), number{"12.5", "12"})
	if p := c.piece(l, l.plain(9), number{"1.5", "1"}, nil); !p.boxed || p.boxR != 200 || !c.heading(nil).boxed {
		t.Errorf("the pieces of a column have no box: %+v", p)
	}
	l.doc = parse(t, sample(t, "ar"))
	l.sums = l.doc.Totals()
	sums := l.fitSums(9)
	for i, s := range sums.rows(nil) {
		if p := s.pieces[1]; !p.boxed || p.boxR != l.right || p.x+p.width() < l.right-0.01 {
			t.Errorf("sum %d is not flush with the others: %+v", i, p)
		}
	}
}

func builtin(tb testing.TB) *typeset.Fonts {
	tb.Helper()
	fonts, err := BuiltinFonts()
	if err != nil {
		tb.Fatal(err)
	}
	return fonts
}

func TestDocumentOfAnyTextIsWritten(t *testing.T) {
	t.Parallel()
	d := parse(t, simple(t, nil)) // what Parse would refuse must not crash either
	d.Notes, d.Customer.Name, d.Digits = "a\x00\x1b\u2028\u202e\ufffd\U0010ffff\xff", "", "none"
	d.Lines[0].Description = strings.Repeat("\u0301", 300) + strings.Repeat("म", 900)
	if _, err := d.WritePDF(io.Discard); err != nil {
		t.Error(err)
	}
}
