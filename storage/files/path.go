package files

import (
	"path"
	"strings"
	"time"

	"github.com/google/uuid"
)

// IsMark says that a name, as [At] reads it, is that of the store's own mark.
func IsMark(name string) bool { return At(name).Path == markerName }

// At reads what somebody calls a file by: its path below the root of a store, or
// with the root before it. [Object.Place] has an Attempt when it names one.
func At(name string) Object {
	name = path.Clean(strings.ReplaceAll(name, `\`, "/"))
	parts := strings.Split(strings.TrimPrefix(name, "/"), "/")
	for i := len(parts) - 2; i >= 0; i-- {
		o := objectAt(strings.Join(parts[i:], "/"), 0, time.Time{})
		if o.Place.Export == uuid.Nil {
			continue
		}
		if o.Place.Attempt == uuid.Nil { // the folder itself
			o.Place, _ = parseFolder(o.Place.Export, parts[i+1])
		}
		return o
	}
	return Object{Path: name}
}
