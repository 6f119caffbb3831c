package main

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// labProxy stands between a holder and its lock service, and can cut them off
// from each other: connections stay open and nothing arrives any more, as when
// packets are lost on the way. It is safe for concurrent use.
type labProxy struct {
	listener net.Listener
	ctx      context.Context // ends with the proxy
	stop     context.CancelFunc
	wg       sync.WaitGroup

	mu     sync.Mutex
	target string
	mute   bool
	conns  map[net.Conn]bool
}

// startProxy listens on a free port of this machine for a target, host:port.
func startProxy(target string) (*labProxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the lab's holders: %w", err)
	}
	p := &labProxy{listener: l, target: target, conns: map[net.Conn]bool{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.wg.Go(p.accept)
	return p, nil
}

// addr is where it listens.
func (p *labProxy) addr() string { return p.listener.Addr().String() }

// cut lets nothing through from now on, in either direction.
func (p *labProxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = true
}

// lead sends whoever connects from now on to another target; who is connected is hung up on.
func (p *labProxy) lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	for c := range p.conns {
		_ = c.Close() // both ends are told by it
	}
}

// close ends everything and returns when no goroutine is left.
func (p *labProxy) close() {
	p.stop()
	_ = p.listener.Close() // accept ends
	p.lead("")
	p.wg.Wait()
}

func (p *labProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

// serve joins a client with the target until one of them goes.
func (p *labProxy) serve(client net.Conn) {
	p.mu.Lock()
	target, mute := p.target, p.mute
	p.mu.Unlock()
	if !p.keep(client) {
		return
	}
	defer p.drop(client)
	if mute { // it is connected, and hears nothing
		_, _ = client.Read(make([]byte, 1)) // the first byte goes nowhere
		<-p.ctx.Done()
		return
	}
	var dialer net.Dialer
	server, err := dialer.DialContext(p.ctx, "tcp", target)
	if err != nil {
		return
	}
	if !p.keep(server) {
		return
	}
	defer p.drop(server)
	var pair sync.WaitGroup
	pair.Go(func() { p.carry(server, client); _ = server.Close() })
	pair.Go(func() { p.carry(client, server); _ = client.Close() })
	pair.Wait()
}

// keep remembers a connection; when the proxy has ended it is closed instead.
func (p *labProxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		_ = c.Close() // it came too late
		return false
	}
	p.conns[c] = true
	return true
}

func (p *labProxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close() // it may be closed already
}

// carry copies bytes until either end is closed. Those that come after the cut are lost.
func (p *labProxy) carry(to, from net.Conn) {
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		mute := p.mute
		p.mu.Unlock()
		if mute {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
