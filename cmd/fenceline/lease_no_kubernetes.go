//go:build !kubernetes

package main

// kubernetesLeases says what this build lacks.
func kubernetesLeases() leaseBackend {
	return leaseBackend{schemes: []string{"kubernetes"}, tag: "kubernetes"}
}
