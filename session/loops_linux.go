package session

import (
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/eventloop"
	"github.com/sluice-push/sluice/internal/sockopt"
	"github.com/sluice-push/sluice/internal/tlsmem"
	"github.com/sluice-push/sluice/transport"
)

// loops are the event loops of a server. They are made when the first session needs one.
type loops struct {
	all  atomic.Pointer[[]*eventLoop]
	next atomic.Uint32

	making  sync.Mutex
	stopped bool // guarded by making

	spare   *eventloop.Pool[offloaded] // made with all: runs work outside the loops; trimmed by the watchdog
	secrets tlsmem.ServerState

	zeroMu   sync.Mutex
	zero     map[*Session]*buffer.Reports // guarded by zeroMu: sessions that have sent without copying
	zeroKeep bool                         // set by tests: zero copy goes on for connections whose kernel copies

	addresses sockopt.Addresses
}

// adopt makes s a session on a loop, with the connection's descriptor. If it returns false, a goroutine must run s, with conn.
func (ls *loops) adopt(s *Session, conn net.Conn) bool {
	if s.srv.o.Engine == EngineGoroutine {
		return false
	}
	switch conn := conn.(type) {
	case *net.TCPConn, *net.UnixConn:
	case *tls.Conn:
		return ls.adoptSecured(s, conn)
	default:
		return false
	}
	here, there := conn.LocalAddr(), conn.RemoteAddr()
	if len(ls.get(s.srv)) == 0 {
		return false
	}
	d, ok, err := transport.Detach(conn)
	if err != nil || !ok {
		return false
	}
	ls.register(s, d)
	s.loop.on.Visit()
	if d.Unix {
		s.loop.ends = &sockopt.AddrPair{Local: here, Remote: there}
	}
	return true
}

// register makes s a session on a loop, with the descriptor d.
func (ls *loops) register(s *Session, d transport.Descriptor) {
	all := *ls.all.Load()
	s.loop.on = all[int(ls.next.Add(1))%len(all)]
	s.fd, s.peer = int32(d.FD), d.Remote //nolint:gosec // descriptors are small
	if !d.Unix {
		s.loop.ends = ls.addresses.TCP(d.Local)
	}
	s.c = (*loopConn)(s)
	s.out.SetSocket(s.fd)
	s.loop.on.Register((*loopConn)(s))
}

// get returns the loops, and makes them if there are none.
func (ls *loops) get(srv *Server) []*eventLoop {
	if all := ls.all.Load(); all != nil {
		return *all
	}
	ls.making.Lock()
	defer ls.making.Unlock()
	if all := ls.all.Load(); all != nil {
		return *all
	}
	if ls.stopped {
		return nil
	}
	ls.spare = eventloop.NewPool(math.MaxInt, func(o offloaded) { o.s.runOffLoop(o.w) }, srv.watchdog.Start)
	var all []*eventLoop
	for range max(1, runtime.GOMAXPROCS(0)/2) {
		l, err := eventloop.New[*loopConn](&eventloop.Config{Clock: srv.clock, Pools: srv.pools, OnStall: srv.watchdog.Start})
		if err != nil {
			srv.o.Logger.Warn("session: event loop failed to start, using goroutines", "error", err)
			break
		}
		all = append(all, l)
	}
	ls.all.Store(&all)
	return all
}

// list returns the loops, or nil if none have been made.
func (ls *loops) list() []*eventLoop {
	if all := ls.all.Load(); all != nil {
		return *all
	}
	return nil
}

// stop ends the loops. All sessions have ended.
func (ls *loops) stop() {
	ls.making.Lock()
	defer ls.making.Unlock()
	ls.stopped = true
	ls.trim(true)
	for _, l := range ls.list() {
		l.Stop()
	}
}

// wait waits until the loops have ended.
func (ls *loops) wait() {
	for _, l := range ls.list() {
		l.Wait()
	}
	if ls.all.Load() != nil {
		ls.spare.Wait()
	}
}

// trim ends spare goroutines that were not needed for a while, and reports whether there are others. If forGood, it ends all of them.
func (ls *loops) trim(forGood bool) (others bool) {
	return ls.all.Load() != nil && ls.spare.TrimIdle(forGood)
}

// checkStalls is called by the watchdog. It hands off loops whose handlers block, and reports whether any loop has to be checked again.
func (ls *loops) checkStalls() (seen bool) {
	for _, l := range ls.list() {
		seen = l.CheckStall() || seen
	}
	return seen
}

// count returns how many loops there are.
func (ls *loops) count() int { return len(ls.list()) }

// busy reports whether the watchdog of a loop has found a stall that the server's watchdog has not checked yet.
func (ls *loops) busy() bool { return slices.ContainsFunc(ls.list(), (*eventLoop).Fired) }

// acceptor returns a function that accepts connections of ln as descriptors and begins their sessions. If the engine or the listener needs
// connections of package net, acceptor returns nil. If the listener allows it, a loop accepts the connections, until that fails. Then one thread
// does everything, and no other thread is woken for a connection. The caller accepts the first connection. It also accepts
// the next one after an error, because it may have to pause before.
func (ls *loops) acceptor(srv *Server, ln *transport.Listener) func() error {
	if srv.o.Engine == EngineGoroutine || srv.o.TLS != nil || !ln.Plain() {
		return nil
	}
	all := ls.get(srv)
	if len(all) == 0 {
		return nil
	}
	here, apart, l := ln.Addr(), false, all[int(ls.next.Add(1))%len(all)]
	return func() error {
		conn, err := ln.AcceptDescriptor()
		if err != nil {
			return err
		}
		srv.admit(conn, here)
		apart = apart || errors.Is(l.AcceptOn(ln, srv.admit), errors.ErrUnsupported)
		return nil
	}
}

// admit begins the session of a connection that was accepted by a listener with the address here.
func (srv *Server) admit(conn transport.Descriptor, here net.Addr) {
	s := newSession(srv, nil)
	srv.loops.register(s, conn)
	if conn.Unix { // such a peer hardly ever has an address
		s.loop.ends = &sockopt.AddrPair{Local: here, Remote: unnamedUnix}
	}
	_ = srv.begin(s) // begin counts a refusal
}

// unnamedUnix is the address of a Unix socket that has none.
var unnamedUnix = &net.UnixAddr{Net: "unix"}

// setAddrs sets the addresses of s, if they are not those of its socket. The session is on a loop and not running yet.
func (ls *loops) setAddrs(s *Session, local, remote net.Addr) {
	to, isTCP := remote.(*net.TCPAddr)
	if at, ok := local.(*net.TCPAddr); ok && isTCP {
		s.peer, s.loop.ends = to.AddrPort(), ls.addresses.TCP(at.AddrPort())
		return
	}
	s.peer, s.loop.ends = netip.AddrPort{}, &sockopt.AddrPair{Local: local, Remote: remote}
}
