package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"sync"
)

// labProxy stands between a holder and its lock service, and can cut them off
// from each other: connections stay open and nothing arrives any more, as when
// packets are lost on the way. It leads to one target, or to where each client
// wants to go, as [labRoute] does. It is safe for concurrent use.
type labProxy struct {
	listener net.Listener
	key      string          // of clients that say where they want to go; empty when the target is given
	ctx      context.Context // ends with the proxy
	stop     context.CancelFunc
	wg       sync.WaitGroup

	mu     sync.Mutex
	target string
	mute   bool
	conns  map[net.Conn]bool
}

// startProxy listens on a free port of this machine for a target, host:port.
func startProxy(target string) (*labProxy, error) { return listenFor(target, "") }

// startForwarder listens for clients that say where they want to go. They must know its
// key: whoever else is on this machine could go where only the user of the lab may.
func startForwarder() (*labProxy, error) { return listenFor("", rand.Text()) }

func listenFor(target, key string) (*labProxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the lab's holders: %w", err)
	}
	p := &labProxy{listener: l, key: key, target: target, conns: map[net.Conn]bool{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.wg.Go(p.accept)
	return p, nil
}

// addr is where it listens.
func (p *labProxy) addr() string { return p.listener.Addr().String() }

// route leads a holder through a forwarder.
func (p *labProxy) route() labRoute { return labRoute{Proxy: p.addr(), Key: p.key} }

// cut lets nothing through from now on, in either direction.
func (p *labProxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = true
}

func (p *labProxy) muted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mute
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

// serve joins a client with its target until one of them goes.
func (p *labProxy) serve(client net.Conn) {
	if !p.keep(client) {
		return
	}
	defer p.drop(client)
	network, target, ok := p.wanted(client)
	if !ok {
		return
	}
	if p.muted() { // it is connected, and hears nothing
		_, _ = io.Copy(io.Discard, client) // until it gives up, or the proxy ends
		return
	}
	server, err := new(net.Dialer).DialContext(p.ctx, network, target)
	if err == nil {
		if !p.keep(server) {
			return
		}
		defer p.drop(server)
	}
	if !p.answer(client, err) || err != nil {
		return
	}
	var pair sync.WaitGroup
	pair.Go(func() { p.carry(server, client) })
	pair.Go(func() { p.carry(client, server) })
	pair.Wait()
}

// wanted is where a client is to be led to, false when it may not be led anywhere.
func (p *labProxy) wanted(client net.Conn) (network, target string, ok bool) {
	if p.key == "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		return "tcp", p.target, true
	}
	var wish labWish
	if err := hearLine(client, &wish); err != nil || wish.Key != p.key {
		return "", "", false
	}
	return wish.Network, wish.Address, true
}

// answer tells a client that asked whether its target was reached.
func (p *labProxy) answer(client net.Conn, failure error) bool {
	if p.key == "" {
		return true
	}
	var told labAnswer
	if failure != nil {
		told.Failure = failure.Error()
	}
	return sayLine(client, told) == nil
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

// carry copies bytes until either end is closed. Those that come after the cut are
// lost, and so is the news that an end was closed: the other one lives on until it is closed itself.
func (p *labProxy) carry(to, from net.Conn) {
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		switch {
		case p.muted() && err == nil:
			continue
		case p.muted():
			return
		case n > 0:
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			_ = to.Close() // the other direction ends by it
			return
		}
	}
}
