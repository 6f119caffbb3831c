//go:build kubernetes

package main

import "github.com/fenceline/fenceline/jobs/lease/kubernetes"

// kubernetesLeases are leases as objects of a namespace of Kubernetes.
func kubernetesLeases() leaseBackend {
	return leaseBackend{schemes: []string{"kubernetes"}, tag: "kubernetes", open: kubernetes.Open}
}
