package typeset

// Fonts is an ordered choice of fonts: each character is set in the first one
// that has it. It is read only and safe for concurrent use.
type Fonts struct {
	regular, bold []*Font
}

// NewFonts makes a choice in the given order. Bold text looks at the bold fonts
// first, other text at the others; either takes the other kind before it leaves
// a character out. The first font of a kind is what text without any script
// (digits, punctuation) is set in. There must be at least one font.
func NewFonts(list ...*Font) *Fonts {
	var light, heavy []*Font
	for _, f := range list {
		if f.Bold {
			heavy = append(heavy, f)
		} else {
			light = append(light, f)
		}
	}
	return &Fonts{
		regular: append(append([]*Font(nil), light...), heavy...),
		bold:    append(append([]*Font(nil), heavy...), light...),
	}
}

// List is every font of the choice once, the regular ones first. The caller
// owns the slice.
func (f *Fonts) List() []*Font { return append([]*Font(nil), f.regular...) }

func (f *Fonts) of(bold bool) []*Font {
	if bold {
		return f.bold
	}
	return f.regular
}
