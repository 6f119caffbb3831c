package web

import (
	"net/http"
	"strings"

	"github.com/fenceline/fenceline/storage"
	"github.com/fenceline/fenceline/web/openapi"
)

// docRoutes are the part of the table about the description of the API.
func (s *Server) docRoutes() []route {
	return []route{
		{"GET", "/api/docs", signedIn, storage.VerbView, s.docsPage},
		{"GET", "/api/openapi.json", api, storage.VerbView, s.apiDocument},
	}
}

// described is the description of the API, for people and for programs.
type described struct {
	api      *openapi.API
	document []byte
	verbs    map[string]string // what a route needs, by its method and path
}

// describe reads the description and joins it with what the table of routes says.
func (s *Server) describe() (described, error) {
	a, err := openapi.Load()
	if err != nil {
		return described{}, err
	}
	d := described{api: a, verbs: map[string]string{}}
	for _, rt := range s.routes() {
		if strings.HasPrefix(rt.path, "/api/v1/") {
			d.verbs[rt.method+" "+rt.path] = string(rt.needs)
		}
	}
	d.document, err = a.Document(s.publicURL, d.verbs)
	return d, err
}

// apiDocument answers the description of the API as OpenAPI 3.1.
func (s *Server) apiDocument(w http.ResponseWriter, _ *http.Request) error {
	d, err := s.docs()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "private, no-cache")
	_, _ = w.Write(d.document) // when it fails nobody is left to tell
	return nil
}
