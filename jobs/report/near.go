package report

import "strings"

// maxTypo is the longest text that is compared: work grows with its square.
const maxTypo = 100

// nearest is the known name that a typo like given probably meant, "" when none
// is close.
func nearest(given string, known []string) string {
	if len(given) > maxTypo {
		return ""
	}
	best, limit := "", 1+len(given)/4
	for _, name := range known {
		// What shares no letter is no typo, however short both are.
		if d := distance(strings.ToLower(given), strings.ToLower(name)); d <= limit && d < max(len(given), len(name)) {
			best, limit = name, d-1
		}
	}
	return best
}

// distance counts the bytes to insert, delete or change (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
