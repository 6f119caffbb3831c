//go:build !etcd

package main

// etcdLeases says what this build lacks.
func etcdLeases() leaseBackend { return leaseBackend{schemes: []string{"etcd", "etcds"}, tag: "etcd"} }
