package tabular

// refusal says what would become of a value and what to do about it, for a
// strict layout, which fails instead.
func (n Note) refusal() string {
	switch n {
	case NoteCut:
		return "the text is longer than a cell can be and would be cut: shorten it in the query, or choose a format without cells"
	case NoteReplaced:
		return "the text has characters that the format cannot hold, and U+FFFD would stand in their place: take them out in the query"
	case NoteAsText:
		return "the number has more digits than the format keeps, or is not finite, and would become text: round it in the query, leave such rows out, or make the column a code"
	case NoteTimeAsText:
		return "the format has no such date or time, and it would become text: leave such rows out, or turn the column into text in the query"
	case NoteAmbiguousTime:
		return "clocks were set back, so this local time came twice, and the file would not say which it is: choose the time zone UTC"
	case NoteNoValue:
		return "the format cannot hold the value and would have nothing in its place: leave such rows out, or turn the column into text in the query"
	case NoteBounds:
		return "the first index of the array is not 1, and the file would not say so: turn the column into text in the query"
	}
	return "the value would not be the same in the file"
}
