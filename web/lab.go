package web

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/fenceline/fenceline/storage"
)

// labRoutes are the part of the table about the lab of leases. What it shows is of
// no tenant and holds no address, so everybody who is let in may look.
func (s *Server) labRoutes() []route {
	return []route{
		{"GET", "/lab", signedIn, storage.VerbView, s.labPage},
		{"GET", "/api/v1/lab", api, storage.VerbView, s.apiLab},
	}
}

// apiLab lists the last result of each backend.
func (s *Server) apiLab(w http.ResponseWriter, r *http.Request) error {
	runs, err := s.store.LabRuns(r.Context())
	if err != nil {
		return err
	}
	return respond(w, http.StatusOK, map[string]any{"items": append([]storage.LabRun{}, runs...)}) // none is a list too
}

// labView is the page of the lab: what each fault did on one backend.
type labView struct {
	Backends []string
	Run      *storage.LabRun // of the chosen backend; nil when the lab was never run
	Faults   []labStory
}

// Lease is how long a lease lived without a renewal.
func (v labView) Lease() time.Duration { return time.Duration(v.Run.LeaseMS) * time.Millisecond }

// labStory is one fault, drawn for three widths.
type labStory struct {
	storage.LabFault
	Pictures []labPicture
}

// Seconds is a time of a story.
func (labStory) Seconds(ms int64) string { return fmt.Sprintf("%.3f", float64(ms)/1000) }

func (s *Server) labPage(w http.ResponseWriter, r *http.Request) error {
	runs, err := s.store.LabRuns(r.Context())
	if err != nil {
		return err
	}
	v, chosen := labView{}, r.URL.Query().Get("backend")
	for _, run := range runs {
		v.Backends = append(v.Backends, run.Backend)
	}
	if len(runs) > 0 {
		i := max(0, slices.Index(v.Backends, "redis")) // the default of the product
		if chosen != "" {
			i = slices.Index(v.Backends, chosen)
		}
		if i < 0 {
			return errMissing
		}
		v.show(runs[i])
	}
	return s.render(w, r, http.StatusOK, "lab", v)
}

// show draws the stories of a backend.
func (v *labView) show(run storage.LabRun) {
	v.Run = &run
	for i, f := range run.Faults {
		story := labStory{LabFault: f}
		if f.Skipped == "" && len(f.Events) > 0 {
			for _, size := range []struct {
				name  string
				width float64
			}{{"wide", 880}, {"medium", 600}, {"narrow", 350}} {
				story.Pictures = append(story.Pictures, drawLab(f, size.name, fmt.Sprintf("%s-%d", size.name, i), size.width))
			}
		}
		v.Faults = append(v.Faults, story)
	}
}
