package datagram

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/transport"
)

// Sending over a socket that sends batches. There is no queue: a datagram goes to the kernel at once, without waiting, or is gathered
// while the datagrams of one batch are handled (Cork), whoever sends it, and leaves with what else was gathered when they have been, when
// there are many, or when somebody who looks now and then has seen it twice (Look).
//
// When the kernel has no room the caller decides. Who waits puts his datagram into a line (line.go), and so is what had been gathered,
// and the one that Late takes beyond what there is room for. One goroutine, which exists only then, sends what is in the line, waiting
// for room; and then all who are owed Writable are told.
//
// A socket of another kind has no way to try: there each caller sends for himself, and waits (SendAndWait).

const gatherPackets = 64 // datagrams that are gathered at most

// Peer is one to whom datagrams are sent. What its methods lock is locked before the Sender's mutex by those who call the Sender, so
// those that are called with that mutex held must not lock it.
type Peer interface {
	// Address returns where datagrams go: to other, if it is not nil.
	Address() (at netip.AddrPort, other net.Addr)
	// Ended reports whether nothing is to be sent any more. Any goroutine may call it, with the Sender's mutex held.
	Ended() bool
	// Sent is told that the kernel took a datagram of n bytes. It may be called with the Sender's mutex held.
	Sent(n int)
	// Dropped is told that a datagram is lost for which nobody waits. It is called without a lock.
	Dropped()
	// Want notes that Writable is owed, and reports whether it was not before. Late calls it, with the Sender's mutex held.
	Want() (first bool)
	// Writable is told, once for each Want that was the first, that what waited is gone. It is called without a lock.
	Writable()
}

// Options are what a Sender needs. All but Waits and WriteTimeout are required.
type Options struct {
	Conn Conn
	// Connected says that the socket has one peer. Then an error that says that nobody listens there is of an earlier datagram.
	Connected bool
	// Pool is where the memory for what is gathered comes from.
	Pool *buffer.Pool
	// Waits has what was gathered wait for room, so long as WriteTimeout says; zero is forever. Otherwise it is dropped.
	Waits        bool
	WriteTimeout time.Duration
	// Go calls run on a goroutine of its own, for which the owner waits after Close of Conn. It is called with the Sender's mutex held.
	Go func(run func())
}

// Sender is the outgoing side of a socket. Any goroutine may use it.
type Sender struct {
	o     Options   // set when made
	calls sync.Pool // of call

	mu sync.Mutex
	// Guarded by mu. What is sent of what is gathered is sent under it as well, without waiting, so that the order is kept.
	corked   bool
	overdue  bool // Look has seen what is gathered before
	packets  []transport.Packet
	from     []Peer         // whose they are
	memory   []byte         // where they lie
	lent     *buffer.Buffer // what memory was at first
	held     []*held
	weight   int // bytes of those in held for which nobody waits
	draining bool
	wanting  []Peer
}

// NewSender makes the outgoing side of a socket. It has nothing to be closed: with the socket, all that waits ends.
func NewSender(o *Options) *Sender { return &Sender{o: *o} }

// call is a datagram on its way into a system call.
type call struct{ one [1]transport.Packet }

func (sd *Sender) call(at netip.AddrPort, data []byte) *call {
	c, ok := sd.calls.Get().(*call)
	if !ok {
		c = new(call)
	}
	c.one[0] = transport.Packet{Addr: at, Data: data}
	return c
}

func (sd *Sender) hangUp(c *call) {
	c.one[0] = transport.Packet{}
	sd.calls.Put(c)
}

// Cork begins to gather, if the socket sends batches.
func (sd *Sender) Cork() {
	if !sd.o.Conn.Gathers() {
		return
	}
	sd.mu.Lock()
	sd.corked = true
	sd.mu.Unlock()
}

// Uncork ends it, and sends what was gathered: see Pour.
func (sd *Sender) Uncork() {
	sd.mu.Lock()
	sd.corked = false
	sd.mu.Unlock()
	sd.Pour()
}

// Gather copies a datagram, if they are gathered, and reports whether there are so many now that the caller has to Pour, once it may.
func (sd *Sender) Gather(p Peer, data []byte) (gathered, full bool) {
	sd.mu.Lock()
	defer sd.mu.Unlock()
	if !sd.corked || sd.draining || len(sd.packets) >= 2*gatherPackets {
		return false, false
	}
	if cap(sd.memory)-len(sd.memory) < len(data) && sd.lent == nil {
		sd.lent = sd.o.Pool.Get()
		sd.memory = sd.lent.B[:0]
	}
	if cap(sd.memory)-len(sd.memory) < len(data) {
		sd.memory = make([]byte, 0, len(data)) // those before keep the memory that they lie in
	}
	from := len(sd.memory)
	sd.memory = append(sd.memory, data...)
	at, _ := p.Address()
	sd.packets = append(sd.packets, transport.Packet{Addr: at, Data: sd.memory[from:len(sd.memory):len(sd.memory)]})
	sd.from = append(sd.from, p)
	return true, len(sd.packets) >= gatherPackets || cap(sd.memory)-len(sd.memory) < smallLetter
}

// Pour sends what is gathered. The caller must hold nothing that a Peer locks.
func (sd *Sender) Pour() {
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
		if err != nil && !(sd.o.Connected && NobodyListens(err)) { // that is of an earlier datagram, and reading will tell
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

// Holds reports whether something is gathered.
func (sd *Sender) Holds() bool {
	sd.mu.Lock()
	defer sd.mu.Unlock()
	return len(sd.packets) > 0
}

// Look sends what is gathered and was when it was called before, so that who calls it at intervals bounds how long a datagram is
// gathered. It reports whether there was any. As for Pour, the caller holds nothing that a Peer locks.
func (sd *Sender) Look() (seen bool) {
	sd.mu.Lock()
	seen = len(sd.packets) > 0
	again := seen && sd.overdue
	sd.overdue = seen
	sd.mu.Unlock()
	if again {
		sd.Pour()
	}
	return seen
}

// TrySend sends one datagram without waiting, over a socket that gathers. Without an error it may not have been sent because there is no
// room, or others wait for it. On a connected socket the error may be that of an earlier datagram: see NobodyListens.
func (sd *Sender) TrySend(p Peer, data []byte) (sent bool, err error) {
	sd.mu.Lock()
	full := sd.draining
	sd.mu.Unlock()
	if full {
		return false, nil
	}
	at, _ := p.Address()
	c := sd.call(at, data)
	defer sd.hangUp(c)
	n, err := sd.o.Conn.Try(c.one[:])
	if n == 1 {
		p.Sent(len(data))
	}
	return n == 1, err
}
