//go:build !zookeeper

package main

// zookeeperLeases says what this build lacks.
func zookeeperLeases() leaseBackend {
	return leaseBackend{schemes: []string{"zookeeper"}, tag: "zookeeper"}
}
