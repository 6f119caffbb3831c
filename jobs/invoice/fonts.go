package invoice

import (
	"embed"
	"fmt"
	"os"
	"sync"

	"github.com/fenceline/fenceline/jobs/invoice/typeset"
)

//go:embed fonts/*.ttf
var fontFiles embed.FS

// fontOrder is how characters look for a font: the first one sets what many
// scripts share.
func fontOrder() []string {
	return []string{
		"NotoSans-Regular", "NotoSans-Bold", "NotoSansBengali-Regular", "NotoSansBengali-Bold",
		"NotoSansDevanagari-Regular", "NotoSansDevanagari-Bold", "NotoSansArabic-Regular", "NotoSansArabic-Bold",
		"NotoSansHebrew-Regular", "NotoSansHebrew-Bold",
	}
}

// BuiltinFonts are the fonts within the program: Latin, Greek, Cyrillic,
// Bengali, Devanagari, Arabic and Hebrew, regular and bold. They are parsed once
// per process, when first needed.
var BuiltinFonts = sync.OnceValues(func() (*typeset.Fonts, error) {
	list := make([]*typeset.Font, 0, len(fontOrder()))
	for _, name := range fontOrder() {
		data, err := fontFiles.ReadFile("fonts/" + name + ".ttf")
		if err != nil {
			return nil, fmt.Errorf("read the built-in font %s: %w", name, err)
		}
		f, err := typeset.ParseFont(data)
		if err != nil {
			return nil, fmt.Errorf("parse the built-in font %s: %w", name, err)
		}
		list = append(list, f)
	}
	return typeset.NewFonts(list...), nil
})

// LoadFonts are the built-in fonts and, for what these lack, the TrueType files
// or collections (of which the first font is taken) at the given paths, in their
// order: a Chinese, Japanese or Korean font, say. Fonts with CFF outlines cannot
// be used; of a variable font, the default weight is. The error names the file. Load them once and use them for every document.
func LoadFonts(paths ...string) (*typeset.Fonts, error) {
	builtin, err := BuiltinFonts()
	if err != nil || len(paths) == 0 {
		return builtin, err
	}
	list := builtin.List()
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read a font: %w", err)
		}
		f, err := typeset.ParseFont(data)
		if err != nil {
			return nil, fmt.Errorf("read the font %s: %w", path, err)
		}
		list = append(list, f)
	}
	return typeset.NewFonts(list...), nil
}
