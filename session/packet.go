package session

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/datagram"
	"github.com/sluice-push/sluice/internal/origin"
	"github.com/sluice-push/sluice/internal/slowness"
	"github.com/sluice-push/sluice/timingwheel"
)

// Sessions over datagrams. One socket has all sessions of its peers; each is a packetPeer, the carrier, in the map of the socket: no
// goroutine, no buffer, one node of the socket's timing wheel. A reader, a goroutine, reads a batch of datagrams and gives each
// datagram's session its turn inline: decode, call the handler. What the batch's handlers send is gathered (datagram.Sender).
//
//	gather ──► jobs: posted, due ──► a turn for each ──► read a batch ──► a turn for each ──► gather ...
//	                                      │                                    │
//	                  the watch sees the same turn twice, a millisecond apart, or the handler is about to wait:
//	                  another reader goes on with the rest, and this goroutine ends with its session's turn
//
// A session whose turn somebody has (busy) gets its datagrams through an inbox, which is bounded: what does not fit is lost, as it
// would be in the kernel's buffer. One that was slow is given to goroutines at once, until it was quick a number of times.
//
// The reader waits in the kernel with one deadline, that of the wheel; who has something for it to do moves the deadline into the past.
// Everything that ends a session posts it, and the reader, or who has the turn, concludes it. A session stays in the map until Close
// of its handler has returned, so that one peer never has two.
//
// Lock order: the session's mutex, the server's, then the socket's or that of its outgoing side.

// The settings of sessions over datagrams.
const (
	packetIdle     = time.Minute // IdleTimeout, if it is zero
	packetSessions = 64 << 10    // MaxSessions, if it is zero
	packetTick     = 20 * time.Millisecond
	packetSlots    = 1024
	inboxMax       = 64 // datagrams that wait for one session
)

// ServePacket runs sessions over datagrams that pc receives: one for each address that sends any. It blocks until the server is closed,
// when it returns [ErrServerClosed], or until reading fails for good, which ends all sessions of the socket. pc is closed when it
// returns, and no function of the handler is running for its sessions any more. Several calls with different sockets are fine; sockets
// that share a port spread the work.
//
// A *transport.PacketConn is read and written in batches. Any other is read one datagram at a time and written with WriteTo, which may
// wait for room. It must be usable by several goroutines and keep deadlines, and who Close wakes must be told a net.ErrClosed; addresses
// that are not of IP must have texts that tell them apart. The section on datagrams of the package comment says what is different from
// a stream. Options.TLS is refused, with errors.ErrUnsupported.
func (srv *Server) ServePacket(pc net.PacketConn) error {
	if srv.o.TLS != nil {
		_ = pc.Close()
		return errPacketTLS
	}
	return srv.servePackets(datagram.NewConn(pc))
}

// servePackets is ServePacket for a socket of either kind.
func (srv *Server) servePackets(conn datagram.Conn) error {
	k := newPacketSocket(srv, conn, srv.packetLimited(Limits{}), nil)
	srv.mu.Lock()
	if srv.closed {
		srv.mu.Unlock()
		conn.Close()
		return srv.shut
	}
	srv.sockets.add(k)
	srv.mu.Unlock()
	go k.newReader().run()
	<-k.ended
	k.work.Wait()
	if k.broken != nil && !srv.isClosed() {
		return k.broken
	}
	return srv.shut
}

var errPacketTLS = fmt.Errorf("session: TLS over datagrams: %w", errors.ErrUnsupported)

// packetSockets are the sockets of a server.
type packetSockets struct {
	mu   sync.Mutex
	all  map[*packetSocket]struct{} // guarded by mu
	live atomic.Int32               // how many there are
	work sync.WaitGroup             // their goroutines

	visit []*packetSocket // owned by the watch
}

// add is called before the first goroutine of k begins.
func (ps *packetSockets) add(k *packetSocket) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.all == nil {
		ps.all = make(map[*packetSocket]struct{})
	}
	ps.all[k] = struct{}{}
	ps.live.Add(1)
	k.begin()
}

func (ps *packetSockets) remove(k *packetSocket) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.all, k)
	ps.live.Add(-1)
}

// stop ends all sockets when their last session has ended.
func (ps *packetSockets) stop() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for k := range ps.all {
		k.stop()
	}
}

// packetName is the address of a peer: one of IP, or any other with its text.
type packetName struct {
	at   netip.AddrPort
	text string
}

// packetSocket runs the sessions of one socket.
type packetSocket struct {
	// Set when made.
	srv    *Server
	conn   datagram.Conn
	o      *settings // of sessions without limits of their own
	single bool      // it was dialed, for one session:
	own    *packetPeer
	here   net.Addr
	ended  chan struct{} // closed when no reader is left
	bell   chan struct{} // wakes a reader that does not read; capacity 1

	work    sync.WaitGroup // goroutines
	letters datagram.Letters
	out     *datagram.Sender
	now     atomic.Int64 // the server's clock when the reader last looked

	turn   atomic.Uint64 // odd while cur has its turn inline
	cur    atomic.Pointer[packetPeer]
	seen   uint64       // owned by the watch: the turn it saw last
	slow   slowness.All // when all sessions are slow, whose turns are given to goroutines
	warned atomic.Int64 // when a refusal was last told

	mu sync.Mutex
	// Guarded by mu.
	peers    map[netip.AddrPort]*packetPeer
	others   map[string]*packetPeer // whose addresses are not of IP
	wheel    *timingwheel.Wheel[*packetPeer]
	posted   []*packetPeer
	asleep   bool
	deadline int64 // what the connection's is, by the server's clock; 0 is none
	stopping bool
	broken   error // why nothing can be read any more
}

// newPacketSocket makes the socket of sessions with o, unless they get limits of their own; with s, one that was dialed for it.
func newPacketSocket(srv *Server, conn datagram.Conn, o *settings, s *Session) *packetSocket {
	slots := packetSlots
	if s != nil {
		slots = 1
	}
	k := &packetSocket{
		srv: srv, conn: conn, single: s != nil, o: o, here: conn.Local(),
		ended: make(chan struct{}), bell: make(chan struct{}, 1), slow: slowness.All{Count: 8, Within: 100 * time.Millisecond},
		peers: make(map[netip.AddrPort]*packetPeer), wheel: timingwheel.NewWheel[*packetPeer](packetTick, slots),
	}
	k.out = datagram.NewSender(&datagram.Options{
		Conn: conn, Connected: k.single, Pool: &srv.pools.Read, Waits: o.Policy == Wait, WriteTimeout: o.WriteTimeout, Go: k.spawn,
	})
	if s != nil {
		k.own = k.carry(s, packetName{at: origin.AddrPort(conn.Net().RemoteAddr())}, nil)
	}
	return k
}

// packetLimited is limited for a session over datagrams, whose silence is bounded unless that is turned off.
func (srv *Server) packetLimited(l Limits) *settings {
	l.IdleTimeout = instead(l.IdleTimeout, srv.o.packetIdle)
	return srv.limited(l)
}

// begin counts a goroutine, which calls end.
func (k *packetSocket) begin() {
	k.work.Add(1)
	k.srv.sockets.work.Add(1)
}

func (k *packetSocket) end() {
	k.work.Done()
	k.srv.sockets.work.Done()
}

// spawn calls f on a goroutine that is counted.
func (k *packetSocket) spawn(f func()) {
	k.begin()
	go func() {
		defer k.end()
		f()
	}()
}

// find returns the session of a peer, or nil.
func (k *packetSocket) find(name packetName) *packetPeer {
	k.mu.Lock()
	defer k.mu.Unlock()
	if name.text != "" {
		return k.others[name.text]
	}
	return k.peers[name.at]
}

// admit makes a session for a peer that has none. It returns nil when that is refused, which costs nothing to remember: the server
// is asked before anything is made.
func (k *packetSocket) admit(name packetName, addr net.Addr) *packetPeer {
	err := k.srv.packetRoom(name.at)
	if err == nil {
		s := newSession(k.srv, nil)
		p := k.carry(s, name, addr)
		if err = k.srv.enter(s); err == nil {
			k.welcome(p)
			return p
		}
	}
	if errors.Is(err, k.srv.shut) {
		return nil
	}
	k.srv.counters[0].refused.Add(1)
	if f := k.srv.observer.Refused; f != nil {
		if addr == nil {
			addr = net.UDPAddrFromAddrPort(name.at)
		}
		f(addr, err)
	}
	now := k.now.Load()
	if last := k.warned.Load(); (last == 0 || now-last >= int64(time.Second)) && k.warned.CompareAndSwap(last, now) {
		k.srv.o.Logger.Debug("session: datagrams of new peers refused", "error", err)
	}
	return nil
}

// packetRoom reports what stands against another session over datagrams.
func (srv *Server) packetRoom(from netip.AddrPort) error {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	limit := srv.o.MaxSessionsPerAddress
	switch {
	case srv.closed:
		return srv.shut
	case len(srv.live) >= srv.o.MaxSessions, srv.packetCount >= srv.o.packetSessions,
		limit > 0 && from.IsValid() && srv.addresses[origin.Of(from.Addr())] >= limit:
		return ErrLimit
	}
	return nil
}

// carry makes the carrier of s.
func (k *packetSocket) carry(s *Session, name packetName, addr net.Addr) *packetPeer {
	p := &packetPeer{s: s, k: k, text: name.text, there: addr}
	p.timer.Value = p
	s.packet, s.c, s.seat.peer = p, p, name.at
	s.o = k.o
	s.in.Limit = s.o.MaxMessage + headerSlack
	return p
}

// welcome begins a session.
func (k *packetSocket) welcome(p *packetPeer) {
	k.mu.Lock()
	if p.text != "" {
		if k.others == nil {
			k.others = make(map[string]*packetPeer)
		}
		k.others[p.text] = p
	} else {
		k.peers[p.s.seat.peer] = p
	}
	k.mu.Unlock()
	p.s.mu.Lock()
	p.s.startClocksLocked()
	p.s.mu.Unlock()
}

// forget is the end of a session.
func (k *packetSocket) forget(p *packetPeer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wheel.Cancel(&p.timer)
	if p.text != "" {
		delete(k.others, p.text)
	} else {
		delete(k.peers, p.s.seat.peer)
	}
	if k.overLocked() {
		k.wakeLocked()
	}
}

// overLocked reports whether nothing is left to be done.
func (k *packetSocket) overLocked() bool {
	return (k.stopping || k.single || k.broken != nil) && len(k.peers)+len(k.others) == 0
}

// stop has the socket end with its last session.
func (k *packetSocket) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopping = true
	k.wakeLocked()
}

// stopped reports whether new peers are not heard any more.
func (k *packetSocket) stopped() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stopping
}

// post has the reader look at p.
func (k *packetSocket) post(p *packetPeer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p.posted {
		return
	}
	p.posted = true
	k.posted = append(k.posted, p)
	k.wakeLocked()
}

// arm has the reader look at p when due has come. That may happen earlier.
func (k *packetSocket) arm(p *packetPeer, due int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p.timer.Scheduled() && p.timer.At() <= due {
		return
	}
	k.wheel.Schedule(&p.timer, due)
	if at, ok := k.wheel.Next(); ok && k.asleep && (k.deadline == 0 || at < k.deadline) {
		k.setDeadlineLocked(at)
	}
}

// past is a deadline that has passed.
const past = 1

func (k *packetSocket) wakeLocked() {
	if !k.asleep {
		return
	}
	k.asleep = false
	k.setDeadlineLocked(past)
	select {
	case k.bell <- struct{}{}:
	default:
	}
}

func (k *packetSocket) setDeadlineLocked(at int64) {
	if at == k.deadline {
		return
	}
	k.deadline = at
	var by time.Time
	switch at {
	case 0:
	case past:
		by = time.Unix(1, 0)
	default:
		by = k.srv.start.Add(time.Duration(at))
	}
	_ = k.conn.SetReadDeadline(by)
}
