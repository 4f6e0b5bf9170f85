package datagram

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/transport/udp"
)

// Sending over a socket that sends batches works without a queue. A datagram goes to the kernel at once, without waiting. While the Sender is
// corked, because the datagrams of one received batch are being handled, outgoing datagrams of all peers are copied instead. They are sent when
// the handling ends (Uncork), when there are many, or when the second call of Tick finds them.
//
// If the kernel has no room, the caller decides. A caller that waits adds its datagram to a line (line.go). Corked datagrams are added too, and
// so is the one datagram that TryHold takes although there is no room. One goroutine, which exists only then, sends the line and waits for room.
// Then it calls Writable of all peers that have asked for it.
//
// Other sockets cannot send without waiting. There each caller sends its own datagram, and waits (SendAndWait).

const corkedPackets = 64 // with this many corked datagrams TryCork reports full

// Peer is a destination of datagrams. Unless a method of the Sender forbids it, its caller may hold the locks of a Peer, which come before the
// Sender's mutex. So methods that are called with that mutex held must not take these locks.
type Peer interface {
	// Address returns the destination. If other is not nil, the destination is other, which is not an IP address.
	Address() (at netip.AddrPort, other net.Addr)
	// Ended reports whether the peer needs no more datagrams. Any goroutine may call it, also with the Sender's mutex held.
	Ended() bool
	// Sent is called when the kernel has taken a datagram of n bytes. The Sender's mutex may be held.
	Sent(n int)
	// Dropped is called when a datagram is lost and no caller waits for its result. No lock is held.
	Dropped()
	// Want records that Writable is to be called, and reports whether that is new. TryHold calls it, with the Sender's mutex held.
	Want() (first bool)
	// Writable is called when no datagram waits any more, once for each Want that returned true. No lock is held.
	Writable()
}

// Options are the settings of a Sender. All but Waits and WriteTimeout are required.
type Options struct {
	Conn Conn
	// Connected says that the socket has one peer. Then an error which says that the peer's port is closed is the answer to an earlier datagram.
	Connected bool
	// Pool lends the memory for corked datagrams.
	Pool *buffer.Pool
	// Waits makes corked datagrams wait for room, for WriteTimeout at most; zero is no limit. Otherwise they are dropped.
	Waits        bool
	WriteTimeout time.Duration
	// Go calls run on a new goroutine. The owner waits for it after Close of Conn. Go is called with the Sender's mutex held.
	Go func(run func())
}

// Sender is the outgoing side of a datagram socket that many peers share. Any goroutine may use it.
type Sender struct {
	o     Options   // set when made
	calls sync.Pool // of call

	mu sync.Mutex
	// Guarded by mu. Corked datagrams are sent with mu held, without waiting, so that their order is kept.
	corked   bool
	overdue  bool // Tick has seen the corked datagrams
	packets  []udp.Packet
	from     []Peer         // the peer of each packet
	memory   []byte         // contains the bytes of packets
	lent     *buffer.Buffer // the pooled buffer that memory began with, or nil
	held     []*held
	weight   int // bytes in held that no caller waits for
	draining bool
	wanting  []Peer
}

// NewSender returns the Sender of a socket. A Sender needs no Close: if the socket is closed, every waiting datagram ends with an error.
func NewSender(o *Options) *Sender { return &Sender{o: *o} }

// call is the argument of one call that sends one datagram. Calls are pooled, so that sending does not allocate.
type call struct{ one [1]udp.Packet }

func (sd *Sender) getCall(at netip.AddrPort, data []byte) *call {
	c, ok := sd.calls.Get().(*call)
	if !ok {
		c = new(call)
	}
	c.one[0] = udp.Packet{Addr: at, Data: data}
	return c
}

func (sd *Sender) putCall(c *call) {
	c.one[0] = udp.Packet{}
	sd.calls.Put(c)
}

// Cork begins to cork datagrams, if the socket sends batches: see TryCork.
func (sd *Sender) Cork() {
	if !sd.o.Conn.SendsBatches() {
		return
	}
	sd.mu.Lock()
	sd.corked = true
	sd.mu.Unlock()
}

// Uncork ends Cork, and sends the corked datagrams: see Flush.
func (sd *Sender) Uncork() {
	sd.mu.Lock()
	sd.corked = false
	sd.mu.Unlock()
	sd.Flush()
}

// TryCork copies a datagram if the Sender is corked, and reports whether it did. If full is set, so many datagrams are corked that the caller
// must call Flush as soon as it holds no lock of a Peer.
func (sd *Sender) TryCork(p Peer, data []byte) (copied, full bool) {
	sd.mu.Lock()
	defer sd.mu.Unlock()
	if !sd.corked || sd.draining || len(sd.packets) >= 2*corkedPackets {
		return false, false
	}
	if cap(sd.memory)-len(sd.memory) < len(data) && sd.lent == nil {
		sd.lent = sd.o.Pool.Get()
		sd.memory = sd.lent.B[:0]
	}
	if cap(sd.memory)-len(sd.memory) < len(data) {
		sd.memory = make([]byte, 0, len(data)) // earlier datagrams keep the memory that contains them
	}
	from := len(sd.memory)
	sd.memory = append(sd.memory, data...)
	at, _ := p.Address()
	sd.packets = append(sd.packets, udp.Packet{Addr: at, Data: sd.memory[from:len(sd.memory):len(sd.memory)]})
	sd.from = append(sd.from, p)
	return true, len(sd.packets) >= corkedPackets || cap(sd.memory)-len(sd.memory) < smallCopy
}

// Flush sends the corked datagrams without waiting. The caller must not hold a lock that a Peer's methods take.
func (sd *Sender) Flush() {
	sd.mu.Lock()
	if len(sd.packets) == 0 {
		sd.mu.Unlock()
		return
	}
	var dropped []Peer
	done := 0
	for done < len(sd.packets) {
		n, err := sd.o.Conn.Try(sd.packets[done:])
		for i := done; i < done+n; i++ {
			sd.from[i].Sent(len(sd.packets[i].Data))
		}
		if done += n; done == len(sd.packets) || n == 0 && err == nil {
			break
		}
		if err != nil && !(sd.o.Connected && PortClosed(err)) { // the error is the answer to an earlier datagram, and Read returns it too
			dropped = append(dropped, sd.from[done])
			done++
		}
	}
	dropped = sd.keepRestLocked(done, dropped)
	clear(sd.packets)
	clear(sd.from)
	sd.packets, sd.from, sd.memory, sd.overdue = sd.packets[:0], sd.from[:0], nil, false
	if sd.lent != nil {
		sd.lent.Release()
		sd.lent = nil
	}
	sd.mu.Unlock()
	for _, p := range dropped {
		p.Dropped()
	}
}

// HasCorked reports whether datagrams are corked.
func (sd *Sender) HasCorked() bool {
	sd.mu.Lock()
	defer sd.mu.Unlock()
	return len(sd.packets) > 0
}

// Tick sends the corked datagrams if the last call found some already. So a caller that calls it at intervals bounds how long a datagram is
// corked. It reports whether it found any. As for Flush, the caller must not hold a lock that a Peer's methods take.
func (sd *Sender) Tick() (seen bool) {
	sd.mu.Lock()
	seen = len(sd.packets) > 0
	again := seen && sd.overdue
	sd.overdue = seen
	sd.mu.Unlock()
	if again {
		sd.Flush()
	}
	return seen
}

// TrySend sends one datagram without waiting, over a socket that sends batches. If sent is false without an error, there is no room, or other
// datagrams wait for it. On a connected socket the error may be the answer to an earlier datagram: see PortClosed.
func (sd *Sender) TrySend(p Peer, data []byte) (sent bool, err error) {
	sd.mu.Lock()
	full := sd.draining
	sd.mu.Unlock()
	if full {
		return false, nil
	}
	at, _ := p.Address()
	c := sd.getCall(at, data)
	defer sd.putCall(c)
	n, err := sd.o.Conn.Try(c.one[:])
	if n == 1 {
		p.Sent(len(data))
	}
	return n == 1, err
}
