package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	api "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	transport "k8s.io/apimachinery/pkg/util/net"
	client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fenceline/fenceline/jobs"
	"github.com/fenceline/fenceline/jobs/invalid"
	"github.com/fenceline/fenceline/storage"
)

// where is what an address says.
type where struct{ namespace, kubeconfig, context string }

// Open keeps leases in a namespace of Kubernetes:
//
//	kubernetes://NAMESPACE                                 by the service account of the pod
//	kubernetes://NAMESPACE?kubeconfig=PATH[&context=NAME]  by a kubeconfig, and its current context unless one is named
//
// It asks for a lease once: an API server that does not answer is
// [storage.ErrUnreachable], an address that cannot be right an [*invalid.Error].
// The caller calls end when no lease is held any more; it ends connections.
func Open(ctx context.Context, address string, o jobs.LeaseOptions) (l jobs.Leaser, end func(), err error) {
	w, err := parse(address)
	if err != nil {
		return nil, nil, err
	}
	config, err := w.config()
	if err != nil {
		return nil, nil, err
	}
	config.Dial = o.Dial
	connections, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("prepare to connect to Kubernetes: %w", err)
	}
	end = func() { transport.CloseIdleConnectionsFor(connections.Transport) }
	coordination, err := client.NewForConfigAndClient(config, connections)
	if err != nil {
		return nil, nil, fmt.Errorf("prepare to connect to Kubernetes: %w", err)
	}
	leaser := &Leaser{leases: coordination.Leases(w.namespace), opt: o}
	_, err = leaser.leases.Get(ctx, leaser.name(""), meta.GetOptions{})
	if err != nil && !api.IsNotFound(err) {
		end()
		if status := api.APIStatus(nil); errors.As(err, &status) {
			return nil, nil, fmt.Errorf("ask Kubernetes for a lease in namespace %s: %w", w.namespace, explain(err))
		}
		return nil, nil, fmt.Errorf("connect to Kubernetes: %w: %w", storage.ErrUnreachable, err)
	}
	return leaser, end, nil
}

// parse reads an address. Nothing of it is repeated that may be a secret.
func parse(address string) (w where, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "kubernetes" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.Fragment != "" {
		return w, invalid.New("LEASE_URL", "", "must be such as kubernetes://NAMESPACE or kubernetes://NAMESPACE?kubeconfig=PATH&context=NAME")
	}
	if w.namespace = u.Host; len(validation.ValidateNamespaceName(w.namespace, false)) > 0 {
		return w, invalid.New("LEASE_URL", "", "names the namespace %q; it must be 1 to 63 small letters, digits and hyphens", w.namespace)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return w, invalid.New("LEASE_URL", "", "has parameters that cannot be read: write %%26 for & and %%25 for %% in a path")
	}
	for name, values := range query {
		if name != "kubeconfig" && name != "context" || len(values) != 1 || values[0] == "" {
			return w, invalid.New("LEASE_URL", "", "has the parameter %q; kubernetes:// takes kubeconfig=PATH and context=NAME, each once", name)
		}
	}
	w.kubeconfig, w.context = query.Get("kubeconfig"), query.Get("context")
	if w.context != "" && w.kubeconfig == "" {
		return w, invalid.New("LEASE_URL", "", "names a context of no kubeconfig: add kubeconfig=PATH")
	}
	return w, nil
}

// config is how to reach the API server.
func (w where) config() (config *rest.Config, err error) {
	if w.kubeconfig != "" {
		config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: w.kubeconfig},
			&clientcmd.ConfigOverrides{CurrentContext: w.context}).ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("read the kubeconfig that LEASE_URL names: %w", err)
		}
	} else if config, err = rest.InClusterConfig(); err != nil {
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, invalid.New("LEASE_URL", "", "names no kubeconfig, and this is no pod of Kubernetes: add ?kubeconfig=PATH")
		}
		return nil, fmt.Errorf("read the service account of the pod: %w", err)
	}
	config.QPS = -1 // the API server has limits of its own; a renewal that waits for ours would be late
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	config.WarningHandler = rest.NoWarnings{}
	config.UserAgent = "fenceline"
	return config, nil
}
