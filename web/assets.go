package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var staticFiles embed.FS

// asset is a file that browsers may keep for ever: its URL holds its hash.
type asset struct {
	mediaType string
	body      []byte
}

// assets are the static files, by the name under /static/ that holds their hash.
type assets struct {
	urls   map[string]string // app.css → /static/app.0123456789ab.css
	byName map[string]asset  // app.0123456789ab.css → the file
}

func mediaType(ext string) string {
	switch ext {
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	}
	return "image/svg+xml"
}

// newAssets hashes what was embedded at build time.
func newAssets() assets {
	a := assets{urls: map[string]string{}, byName: map[string]asset{}}
	entries, _ := staticFiles.ReadDir("static") // embedded: it cannot fail
	for _, e := range entries {
		body, _ := staticFiles.ReadFile("static/" + e.Name())
		sum := sha256.Sum256(body)
		ext := path.Ext(e.Name())
		name := strings.TrimSuffix(e.Name(), ext) + "." + hex.EncodeToString(sum[:6]) + ext
		a.urls[e.Name()] = "/static/" + name
		a.byName[name] = asset{mediaType(ext), body}
	}
	return a
}

func (s *Server) static(w http.ResponseWriter, r *http.Request) error {
	file, ok := s.assets.byName[r.PathValue("file")]
	if !ok {
		return errNoRoute
	}
	w.Header().Set("Content-Type", file.mediaType)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(file.body) // when it fails nobody is left to tell
	return nil
}
