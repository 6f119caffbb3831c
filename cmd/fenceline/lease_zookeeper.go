//go:build zookeeper

package main

import "github.com/fenceline/fenceline/jobs/lease/zookeeper"

// zookeeperLeases are leases at an ensemble of ZooKeeper.
func zookeeperLeases() leaseBackend {
	return leaseBackend{schemes: []string{"zookeeper"}, tag: "zookeeper", open: zookeeper.Open}
}
