package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
)

// labRoute is the way of a holder to its lock service. Through a proxy it makes
// every connection that the client of the service wants, whatever the address:
// names and certificates are checked from end to end, and servers that the service
// names (a primary, the nodes of a cluster) are reached the same way.
type labRoute struct {
	Proxy string // a forwarder's address; empty for the way of the system
	Key   string
}

// labWish is the line with which a connection to a forwarder begins, and labAnswer the line that
// answers it. What follows belongs to the holder and its service.
type labWish struct{ Key, Network, Address string }

// labAnswer is empty when the service was reached.
type labAnswer struct{ Failure string }

// dialer is nil for the way of the system.
func (r labRoute) dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	if r.Proxy == "" {
		return nil
	}
	return r.dial
}

// dial connects to an address through the proxy.
func (r labRoute) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", r.Proxy)
	if err != nil {
		return nil, fmt.Errorf("connect to the lab's proxy: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // a proxy that was cut never answers
	err = sayLine(conn, labWish{Key: r.Key, Network: network, Address: address})
	var told labAnswer
	if err == nil {
		err = hearLine(conn, &told)
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	if err == nil && told.Failure != "" {
		err = errors.New(told.Failure)
	}
	if err != nil {
		_ = conn.Close() // nothing was said yet
		return nil, fmt.Errorf("connect through the lab's proxy: %w", err)
	}
	return &labConn{conn.(*net.TCPConn), labAddr{network, address}}, nil
}

// labConn is a connection through a proxy. Clients compare where a connection leads to with what a service
// told them, and connect there once more.
type labConn struct {
	*net.TCPConn
	to labAddr
}

// RemoteAddr is the service's.
func (c *labConn) RemoteAddr() net.Addr { return c.to }

type labAddr struct{ network, address string }

func (a labAddr) Network() string { return a.network }
func (a labAddr) String() string  { return a.address }

// longestLine is longer than any address.
const longestLine = 64 << 10

// hearLine reads a line of JSON and not a byte of what follows.
func hearLine(c net.Conn, into any) error {
	var line []byte
	for b := []byte{0}; len(line) < longestLine; {
		n, err := c.Read(b)
		if n == 1 && b[0] == '\n' {
			return json.Unmarshal(line, into)
		}
		if err != nil {
			return err
		}
		line = append(line, b[:n]...)
	}
	return errors.New("the line has no end")
}

func sayLine(c net.Conn, what any) error {
	raw, err := json.Marshal(what)
	if err != nil {
		return err
	}
	_, err = c.Write(append(raw, '\n'))
	return err
}
