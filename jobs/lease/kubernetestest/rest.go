package kubernetestest

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Lease is an object as it goes over the wire.
type Lease struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       Spec     `json:"spec"`
}

// Metadata is what all objects have, as far as leases need it.
type Metadata struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace,omitempty"`
	UID               string            `json:"uid,omitempty"`
	ResourceVersion   string            `json:"resourceVersion,omitempty"`
	CreationTimestamp *time.Time        `json:"creationTimestamp,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
}

// Spec is what a lease says.
type Spec struct {
	HolderIdentity       *string `json:"holderIdentity,omitempty"`
	LeaseDurationSeconds *int32  `json:"leaseDurationSeconds,omitempty"`
	AcquireTime          *string `json:"acquireTime,omitempty"`
	RenewTime            *string `json:"renewTime,omitempty"`
	LeaseTransitions     *int32  `json:"leaseTransitions,omitempty"`
}

// refusal is the answer of a server that does not do it.
type refusal struct {
	code            int
	reason, message string
}

func (s *Server) routes() http.Handler {
	const all = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
	mux := http.NewServeMux()
	for pattern, act := range map[string]func(r *http.Request) (int, any, *refusal){
		"GET " + all: s.list, "POST " + all: s.create, "GET " + all + "/{name}": s.get, "PUT " + all + "/{name}": s.update, "DELETE " + all + "/{name}": s.delete,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			code, body, no := act(r)
			s.mu.Unlock()
			if no != nil {
				refuse(w, *no)
				return
			}
			answer(w, code, body)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, refusal{http.StatusNotFound, "NotFound", "the server could not find the requested resource"})
	})
	return mux
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // who has gone does not hear it
}

func refuse(w http.ResponseWriter, r refusal) {
	answer(w, r.code, map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure", "message": r.message, "reason": r.reason, "code": r.code,
	})
}

func (s *Server) list(r *http.Request) (int, any, *refusal) {
	if r.URL.RawQuery != "" {
		return 0, nil, &refusal{http.StatusBadRequest, "BadRequest", "this server selects and watches nothing"}
	}
	items := []Lease{}
	for _, l := range s.leases {
		items = append(items, *l)
	}
	slices.SortFunc(items, func(a, b Lease) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) })
	return http.StatusOK, map[string]any{
		"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "items": items, "metadata": map[string]any{"resourceVersion": strconv.FormatInt(s.version, 10)},
	}, nil
}

func (s *Server) get(r *http.Request) (int, any, *refusal) {
	l := s.leases[r.PathValue("name")]
	if l == nil || r.PathValue("namespace") != Namespace {
		return 0, nil, missing(r.PathValue("name"))
	}
	return http.StatusOK, *l, nil
}

func missing(name string) *refusal {
	return &refusal{http.StatusNotFound, "NotFound", fmt.Sprintf("leases.coordination.k8s.io %q not found", name)}
}

func conflict(name, why string) *refusal {
	return &refusal{http.StatusConflict, "Conflict", fmt.Sprintf("Operation cannot be fulfilled on leases.coordination.k8s.io %q: %s", name, why)}
}

func (s *Server) create(r *http.Request) (int, any, *refusal) {
	l, no := read(r)
	switch {
	case no != nil:
		return 0, nil, no
	case r.PathValue("namespace") != Namespace:
		return 0, nil, &refusal{http.StatusNotFound, "NotFound", fmt.Sprintf("namespaces %q not found", r.PathValue("namespace"))}
	case l.Metadata.ResourceVersion != "":
		return 0, nil, &refusal{http.StatusBadRequest, "BadRequest", "resourceVersion should not be set on objects to be created"}
	case s.leases[l.Metadata.Name] != nil:
		return 0, nil, &refusal{http.StatusConflict, "AlreadyExists", fmt.Sprintf("leases.coordination.k8s.io %q already exists", l.Metadata.Name)}
	}
	return http.StatusCreated, s.born(l), nil
}

// born keeps a new object.
func (s *Server) born(l *Lease) Lease {
	now := time.Now().UTC().Truncate(time.Second)
	l.Metadata.UID, l.Metadata.CreationTimestamp = rand.Text(), &now
	return s.keep(l)
}

// keep gives an object a version that none had before.
func (s *Server) keep(l *Lease) Lease {
	s.version++
	l.Metadata.ResourceVersion, l.Metadata.Namespace = strconv.FormatInt(s.version, 10), Namespace
	s.leases[l.Metadata.Name] = l
	return *l
}

// update is the real one's: leases may be made by it, but not with the UID of one that is gone.
func (s *Server) update(r *http.Request) (int, any, *refusal) {
	name := r.PathValue("name")
	l, no := read(r)
	if no != nil {
		return 0, nil, no
	}
	old := s.leases[name]
	switch {
	case l.Metadata.Name != name:
		return 0, nil, &refusal{http.StatusBadRequest, "BadRequest", "the name of the object does not match the name on the URL"}
	case old == nil && l.Metadata.UID != "":
		return 0, nil, conflict(name, "Precondition failed: UID in precondition: "+l.Metadata.UID+", UID in object meta: ")
	case old == nil:
		return http.StatusCreated, s.born(l), nil
	case l.Metadata.UID != "" && l.Metadata.UID != old.Metadata.UID:
		return 0, nil, conflict(name, "Precondition failed: UID in precondition: "+l.Metadata.UID+", UID in object meta: "+old.Metadata.UID)
	case l.Metadata.ResourceVersion == "":
		return 0, nil, invalid(name, "metadata.resourceVersion: Invalid value: 0: must be specified for an update")
	case l.Metadata.ResourceVersion != old.Metadata.ResourceVersion:
		return 0, nil, conflict(name, "the object has been modified; please apply your changes to the latest version and try again")
	}
	l.Metadata.UID, l.Metadata.CreationTimestamp = old.Metadata.UID, old.Metadata.CreationTimestamp
	return http.StatusOK, s.keep(l), nil
}

func (s *Server) delete(r *http.Request) (int, any, *refusal) {
	name := r.PathValue("name")
	if s.leases[name] == nil {
		return 0, nil, missing(name)
	}
	delete(s.leases, name)
	return http.StatusOK, map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Success"}, nil
}

func invalid(name, why string) *refusal {
	return &refusal{http.StatusUnprocessableEntity, "Invalid", fmt.Sprintf("Lease.coordination.k8s.io %q is invalid: %s", name, why)}
}

var (
	objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	microTime  = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)
)

// read takes an object that could be kept.
func read(r *http.Request) (*Lease, *refusal) {
	if kind := r.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		return nil, &refusal{http.StatusUnsupportedMediaType, "UnsupportedMediaType", "the body of the request was in an unknown format"}
	}
	l := new(Lease)
	if err := json.NewDecoder(r.Body).Decode(l); err != nil {
		return nil, &refusal{http.StatusBadRequest, "BadRequest", err.Error()}
	}
	m, sp := l.Metadata, l.Spec
	switch {
	case l.Kind != "Lease" || l.APIVersion != "coordination.k8s.io/v1":
		return nil, &refusal{http.StatusBadRequest, "BadRequest", fmt.Sprintf("%s %s is no Lease of this version", l.APIVersion, l.Kind)}
	case m.Namespace != "" && m.Namespace != r.PathValue("namespace"):
		return nil, &refusal{http.StatusBadRequest, "BadRequest", "the namespace of the provided object does not match the namespace sent on the request"}
	case len(m.Name) > 253 || !objectName.MatchString(m.Name):
		return nil, invalid(m.Name, "metadata.name: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'")
	case sp.LeaseDurationSeconds != nil && *sp.LeaseDurationSeconds <= 0:
		return nil, invalid(m.Name, "spec.leaseDurationSeconds: must be greater than 0")
	case sp.LeaseTransitions != nil && *sp.LeaseTransitions < 0:
		return nil, invalid(m.Name, "spec.leaseTransitions: must be greater than or equal to 0")
	}
	for _, at := range []*string{sp.AcquireTime, sp.RenewTime} {
		if at != nil && !microTime.MatchString(*at) {
			return nil, &refusal{http.StatusBadRequest, "BadRequest", fmt.Sprintf("%q is no time with microseconds", *at)}
		}
	}
	return l, nil
}

// Leases are the objects that are there.
func (s *Server) Leases() []Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Lease
	for _, l := range s.leases {
		list = append(list, *l)
	}
	return list
}

// Edit changes the one object that is annotated with this value, as somebody with
// kubectl would: with a new version. It answers false when there is none.
func (s *Server) Edit(annotated string, change func(*Lease)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.leases {
		for _, value := range l.Metadata.Annotations {
			if value == annotated {
				next := *l
				change(&next)
				s.keep(&next)
				return true
			}
		}
	}
	return false
}

// Delete takes the object away that is annotated with this value.
func (s *Server) Delete(annotated string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, l := range s.leases {
		for _, value := range l.Metadata.Annotations {
			if value == annotated {
				delete(s.leases, name)
			}
		}
	}
}
