package kubernetestest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/fenceline/fenceline/jobs/processtest"
)

// startTimeout is generous: a loaded machine is slow.
const startTimeout = 3 * time.Minute

// RealServer is a kube-apiserver with an etcd of its own.
type RealServer struct {
	dir, address  string
	admin, worker string // tokens
	client        *http.Client
	api, etcd     *processtest.Process
}

// Real starts the two programs, which end with the test. Its address is for a
// service account with the rights that the manifest at a path gives, and no others.
func Real(t testing.TB, apiserver, etcd, manifest string) *RealServer {
	t.Helper()
	s := &RealServer{dir: t.TempDir(), admin: rand.Text(), worker: rand.Text()}
	t.Cleanup(s.Kill)
	if err := s.start(apiserver, etcd); err != nil {
		t.Fatal(err)
	}
	if err := s.ready(); err != nil {
		s.Kill()
		t.Fatalf("%v\n%s", err, s.api.Output())
	}
	if err := s.prepare(manifest); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *RealServer) start(apiserver, etcd string) error {
	ports, err := processtest.FreePorts(3)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key) // the form that serves as the public key too
	if err != nil {
		return err
	}
	tokens := fmt.Sprintf("%s,admin,1,system:masters\n%s,system:serviceaccount:%s:fenceline,2\n", s.admin, s.worker, Namespace)
	for name, content := range map[string]string{"key": string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})), "tokens": tokens} {
		if err := os.WriteFile(s.file(name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	store, peers := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	s.etcd, err = processtest.Spawn(etcd, "--data-dir", s.file("etcd"), "--listen-client-urls", store, "--advertise-client-urls", store,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers)
	if err != nil {
		return err
	}
	s.address = fmt.Sprintf("https://127.0.0.1:%d", ports[2])
	s.api, err = processtest.Spawn(apiserver, "--etcd-servers="+store, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[2]),
		"--cert-dir="+s.file("certificates"), "--service-cluster-ip-range=10.0.0.0/24", "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+s.file("key"), "--service-account-signing-key-file="+s.file("key"), "--disable-admission-plugins=ServiceAccount",
		"--token-auth-file="+s.file("tokens"), "--authorization-mode=RBAC")
	return err
}

func (s *RealServer) file(name string) string { return filepath.Join(s.dir, name) }

// ready waits until the server answers.
func (s *RealServer) ready() error {
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	err := errors.New("the API server has not made its certificate")
	for end := time.Now().Add(startTimeout); time.Now().Before(end) && !s.api.Ended(); <-look.C {
		authority, missing := os.ReadFile(s.file("certificates/apiserver.crt"))
		if missing != nil {
			continue
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(authority)
		s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}, Timeout: 10 * time.Second}
		if err = s.ask("GET", "/readyz", nil, nil); err == nil {
			return os.WriteFile(s.file("kubeconfig"), Kubeconfig(s.address, authority, s.worker), 0o600)
		}
	}
	return fmt.Errorf("the API server is not ready: %w", err)
}

// ask asks as an administrator.
func (s *RealServer) ask(method, path string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(method, s.address+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+s.admin)
	r.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= http.StatusBadRequest {
		return errors.Join(err, fmt.Errorf("%s %s is answered %d: %s", method, path, res.StatusCode, said))
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(said, into)
}

// prepare makes the namespace and what the manifest says.
func (s *RealServer) prepare(manifest string) error {
	type object = map[string]any
	err := s.ask("POST", "/api/v1/namespaces", object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": Namespace}}, nil)
	if err != nil {
		return err
	}
	f, err := os.Open(manifest)
	if err != nil {
		return err
	}
	defer f.Close()
	paths := map[any]string{
		"ServiceAccount": "/api/v1/namespaces/%s/serviceaccounts",
		"Role":           "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/roles", "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings",
	}
	for decode := yaml.NewDecoder(f); ; {
		var o object
		switch err := decode.Decode(&o); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := s.ask("POST", fmt.Sprintf(paths[o["kind"]], Namespace), o, nil); err != nil {
			return err
		}
	}
}

// URL is the address of leases in its namespace.
func (s *RealServer) URL() string {
	return "kubernetes://" + Namespace + "?kubeconfig=" + url.QueryEscape(s.file("kubeconfig"))
}

// Kill ends both programs with SIGKILL.
func (s *RealServer) Kill() {
	for _, p := range []*processtest.Process{s.api, s.etcd} {
		if p != nil {
			p.Kill()
		}
	}
}

// Pause freezes the API server.
func (s *RealServer) Pause(t testing.TB) {
	t.Helper()
	if err := s.api.Freeze(); err != nil {
		t.Fatal(err)
	}
}

// Resume lets it go on.
func (s *RealServer) Resume(t testing.TB) {
	t.Helper()
	if err := s.api.Thaw(); err != nil {
		t.Fatal(err)
	}
}

const itsLeases = "/apis/coordination.k8s.io/v1/namespaces/" + Namespace + "/leases"

// Leases are the objects that are there.
func (s *RealServer) Leases() []Lease {
	var list struct{ Items []Lease }
	if err := s.ask("GET", itsLeases, nil, &list); err != nil {
		panic(err) // the test has broken its server
	}
	for i := range list.Items {
		list.Items[i].APIVersion, list.Items[i].Kind = "coordination.k8s.io/v1", "Lease" // lists leave it out
	}
	return list.Items
}

// Edit changes the one object that is annotated with this value, with a new version. It answers false when there is none.
func (s *RealServer) Edit(annotated string, change func(*Lease)) bool {
	for _, l := range s.Leases() {
		for _, value := range l.Metadata.Annotations {
			if value != annotated {
				continue
			}
			next := l
			change(&next)
			next.Metadata.ResourceVersion = l.Metadata.ResourceVersion
			if s.ask("PUT", itsLeases+"/"+l.Metadata.Name, next, nil) == nil {
				return true
			}
			return s.Edit(annotated, change) // it was renewed meanwhile
		}
	}
	return false
}
