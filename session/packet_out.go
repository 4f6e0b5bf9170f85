package session

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/transport"
)

// Sending over a socket that sends batches. There is no queue: a datagram goes to the kernel at once, without waiting, or is gathered
// while the datagrams of one batch are handled (cork), whoever sends it, and leaves with what else was gathered when they have been, when
// there are many, or when the watch has seen it twice.
//
// When the kernel has no room the policy of the session decides. Who waits puts his datagram into a line (held), and so is what had
// been gathered, and the one frame that TryWrite takes beyond what there is room for. One goroutine, which exists only then, sends
// what is in the line, waiting for room; and then all who are owed Writable are told.
//
// A socket of another kind has no way to try: there each caller sends for himself, and waits.

const (
	gatherPackets = 64        // datagrams that are gathered at most
	heldBytes     = 256 << 10 // of what was gathered and waits for room
	packetMax4    = 65_507    // bytes in a datagram over IPv4
	packetMax6    = 65_527    // over IPv6
)

// packetOut is the outgoing side of a socket. Lock order: a session's mutex, then this one.
type packetOut struct {
	k     *packetSocket
	calls sync.Pool // of packetCall

	mu sync.Mutex
	// Guarded by mu. What is sent of what is gathered is sent under it as well, without waiting, so that the order is kept.
	corked   bool
	overdue  bool // the watch has seen what is gathered before
	packets  []transport.Packet
	from     []*packetPeer  // whose they are
	memory   []byte         // where they lie
	lent     *buffer.Buffer // what memory was at first
	held     []*heldPacket
	weight   int // bytes of those in held for which nobody waits
	draining bool
	wanting  []*packetPeer
}

// heldPacket is a datagram that waits for room.
type heldPacket struct {
	p      *packetPeer
	data   []byte
	by     int64      // when it is given up; 0 is never
	result chan error // capacity 1; nil when nobody waits
}

// packetCall is a datagram on its way into a system call.
type packetCall struct{ one [1]transport.Packet }

func (o *packetOut) call(p *packetPeer, data []byte) *packetCall {
	c, ok := o.calls.Get().(*packetCall)
	if !ok {
		c = new(packetCall)
	}
	c.one[0] = transport.Packet{Addr: p.s.seat.peer, Data: data}
	return c
}

func (o *packetOut) hangUp(c *packetCall) {
	c.one[0] = transport.Packet{}
	o.calls.Put(c)
}

// cork begins to gather.
func (o *packetOut) cork() {
	if !o.k.conn.gathers() || o.k.single && o.k.pulls() {
		return
	}
	o.mu.Lock()
	o.corked = true
	o.mu.Unlock()
}

// uncork ends it, and sends what was gathered.
func (o *packetOut) uncork() {
	o.mu.Lock()
	o.corked = false
	o.mu.Unlock()
	o.pour()
}

// gather gathers a datagram, if they are, and reports whether there are many now.
func (o *packetOut) gather(p *packetPeer, data []byte) (gathered, full bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.corked || o.draining || len(o.packets) >= 2*gatherPackets {
		return false, false
	}
	if cap(o.memory)-len(o.memory) < len(data) && o.lent == nil {
		o.lent = o.k.srv.pools.Read.Get()
		o.memory = o.lent.B[:0]
	}
	if cap(o.memory)-len(o.memory) < len(data) {
		o.memory = make([]byte, 0, len(data)) // those before keep the memory that they lie in
	}
	from := len(o.memory)
	o.memory = append(o.memory, data...)
	o.packets = append(o.packets, transport.Packet{Addr: p.s.seat.peer, Data: o.memory[from:len(o.memory):len(o.memory)]})
	o.from = append(o.from, p)
	return true, len(o.packets) >= gatherPackets || cap(o.memory)-len(o.memory) < smallLetter
}

// pour sends what is gathered. It must not be called under a session's mutex.
func (o *packetOut) pour() {
	o.mu.Lock()
	if len(o.packets) == 0 {
		o.mu.Unlock()
		return
	}
	var dropped []*packetPeer
	done := 0
	for done < len(o.packets) {
		n, err := o.k.conn.try(o.packets[done:])
		for i := done; i < done+n; i++ {
			o.from[i].sent(len(o.packets[i].Data))
		}
		if done += n; done == len(o.packets) || n == 0 && err == nil {
			break
		}
		if err != nil && !(o.k.single && nobodyListens(err)) { // that is of an earlier datagram, and reading will tell
			dropped = append(dropped, o.from[done])
			done++
		}
	}
	dropped = o.keepRestLocked(done, dropped)
	clear(o.packets)
	clear(o.from)
	o.packets, o.from, o.memory, o.overdue = o.packets[:0], o.from[:0], nil, false
	if o.lent != nil {
		o.lent.Release()
		o.lent = nil
	}
	o.mu.Unlock()
	for _, p := range dropped {
		p.dropped()
	}
}

// keepRestLocked puts what was gathered, and finds no room, into the line, as far as the policies say so.
func (o *packetOut) keepRestLocked(done int, dropped []*packetPeer) []*packetPeer {
	for i, packet := range o.packets[done:] {
		p := o.from[done+i]
		if o.k.o.Policy != Wait || o.weight+len(packet.Data) > heldBytes {
			dropped = append(dropped, p)
			continue
		}
		o.holdLocked(&heldPacket{p: p, data: bytes.Clone(packet.Data), by: o.k.srv.by(o.k.o.WriteTimeout)})
	}
	return dropped
}

// dropped counts a datagram that could not be sent.
func (p *packetPeer) dropped() {
	p.s.mu.Lock()
	p.s.droppedLocked(1)
	p.s.mu.Unlock()
}

// holds reports whether something is gathered.
func (o *packetOut) holds() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.packets) > 0
}

// look is called by the watch: what it sees twice is sent.
func (o *packetOut) look() (seen bool) {
	o.mu.Lock()
	seen = len(o.packets) > 0
	again := seen && o.overdue
	o.overdue = seen
	o.mu.Unlock()
	if again {
		o.pour()
	}
	return seen
}

// full reports whether somebody waits for room.
func (o *packetOut) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.draining
}

// hold puts a datagram into the line.
func (o *packetOut) hold(h *heldPacket) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.holdLocked(h)
}

func (o *packetOut) holdLocked(h *heldPacket) {
	o.held = append(o.held, h)
	if h.result == nil {
		o.weight += len(h.data)
	}
	if !o.draining {
		o.draining = true
		o.k.begin()
		go o.drain()
	}
}

// want notes that TryWrite found no room for f, and reports whether f was taken nevertheless: somebody has to find out when there is
// room, and only who sends does. With more, or when f was not taken, Writable is owed.
func (o *packetOut) want(p *packetPeer, f []byte, more bool) (taken bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken = !o.draining
	if (more || !taken) && !p.wants {
		p.wants = true
		o.wanting = append(o.wanting, p)
	}
	if taken {
		o.holdLocked(&heldPacket{p: p, data: f, by: p.s.srv.by(p.s.o.WriteTimeout)})
	}
	return taken
}

// poke has the line looked through: a session has ended.
func (o *packetOut) poke() {
	o.mu.Lock()
	defer o.mu.Unlock()
	_ = o.k.conn.setWriteDeadline(time.Unix(1, 0))
}

// drain sends what is in the line, waiting for room, and ends when it is empty.
func (o *packetOut) drain() {
	defer o.k.end()
	for h := o.first(); h != nil; h = o.first() {
		c := o.call(h.p, h.data)
		err := o.k.conn.send(&c.one[0], h.p.there)
		o.hangUp(c)
		if err == nil {
			h.p.sent(len(h.data))
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) { // otherwise first sees to it
			o.settle(h, err)
		}
	}
}

// first gives up what has waited too long, and returns the first that may still be sent. Without one all who want to write are told.
func (o *packetOut) first() *heldPacket {
	o.mu.Lock()
	now, by := o.k.srv.clock(), int64(0)
	var lost []*packetPeer
	kept := o.held[:0]
	for _, h := range o.held {
		switch {
		case h.p.s.phase.Load() == phaseClosed:
			o.resultLocked(h, ErrClosed)
		case h.by > 0 && now >= h.by:
			if o.resultLocked(h, os.ErrDeadlineExceeded); h.result == nil {
				lost = append(lost, h.p)
			}
		default:
			by = sooner(by, h.by)
			kept = append(kept, h)
		}
	}
	clear(o.held[len(kept):])
	o.held = kept
	var first *heldPacket
	var wanting []*packetPeer
	if len(kept) > 0 {
		first = kept[0]
		var t time.Time
		if by > 0 {
			t = o.k.srv.start.Add(time.Duration(by))
		}
		_ = o.k.conn.setWriteDeadline(t)
	} else {
		wanting, o.wanting, o.held, o.draining = o.wanting, nil, nil, false
	}
	o.mu.Unlock()
	for _, p := range lost {
		p.dropped()
	}
	for _, p := range wanting {
		p.writable()
	}
	return first
}

// resultLocked tells who waits.
func (o *packetOut) resultLocked(h *heldPacket, err error) {
	if h.result != nil {
		h.result <- err
	} else {
		o.weight -= len(h.data)
	}
}

// settle takes the first of the line out.
func (o *packetOut) settle(h *heldPacket, err error) {
	o.mu.Lock()
	o.held[0] = nil
	o.held = o.held[1:]
	o.resultLocked(h, err)
	o.mu.Unlock()
	if err != nil && h.result == nil {
		h.p.dropped()
	}
}

// writable calls Writable, if it is owed.
func (p *packetPeer) writable() {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.wants = false; s.phase.Load() != phaseOpen {
		return
	}
	s.want = true
	s.notifyLocked()
}

// pulls reports whether the messages of the one session are received: then nobody knows how long a turn takes.
func (k *packetSocket) pulls() bool {
	p := k.own
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.s.pull != nil
}
