//go:build etcd

package main

import "github.com/fenceline/fenceline/jobs/lease/etcd"

// etcdLeases are leases at a cluster of etcd.
func etcdLeases() leaseBackend {
	return leaseBackend{schemes: []string{"etcd", "etcds"}, tag: "etcd", open: etcd.Open}
}
