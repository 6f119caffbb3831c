package report

import (
	_ "embed"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // zones are there on machines that have no list of their own
)

// zoneNames are the names of zone.tab and zone1970.tab (IANA tz database, public
// domain), and UTC.
//
//go:embed zones.txt
var zoneNames string

// zoneShape keeps to names of zones: not the files beside them, such as
// localtime, and not the variants below posix/ and right/.
var zoneShape = regexp.MustCompile(`^(UTC|[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2})$`)

// Zones are the names of the time zones that people choose from, by name. Others
// of the IANA tz database, such as old names, are valid as well.
func Zones() []string { return strings.Fields(zoneNames) }

// loadZone finds a zone of the IANA tz database. What depends on the machine,
// such as Local, is none.
func loadZone(name string) (*time.Location, bool) {
	if !zoneShape.MatchString(name) || slices.Contains([]string{"Local", "Factory"}, name) {
		return nil, false
	}
	zone, err := time.LoadLocation(name)
	return zone, err == nil
}

// LoadZone finds a time zone by its name in the IANA tz database. The error is a
// phrase to be put after the name.
func LoadZone(name string) (*time.Location, error) {
	zone, ok := loadZone(name)
	if !ok {
		return nil, errors.New(zoneProblem(name))
	}
	return zone, nil
}

func zoneProblem(name string) string {
	return "is no IANA time zone such as Europe/Berlin or UTC" + DidYouMean(name, Zones())
}
