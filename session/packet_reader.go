package session

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/sluice-push/sluice/internal/datagram"
	"github.com/sluice-push/sluice/timingwheel"
	"github.com/sluice-push/sluice/transport"
)

// packetJob is something to be done besides handling datagrams.
type packetJob struct {
	p    *packetPeer
	late bool // a time has come
}

// packetReader reads a socket, until another goroutine takes it over.
type packetReader struct {
	k      *packetSocket
	expire func(*timingwheel.Node[*packetPeer]) // notes a job
	done   bool                                 // it has ended in order

	// Owned by the reader; by who took over when the peer says so: see packetPeer.reader.
	p       *packetPeer // whose turn it is, or was last
	slots   *datagram.Slots
	n, next int      // how many packets were read, and the first that is not begun
	from    net.Addr // of the only packet, if that is not of IP
	jobs    []packetJob
	nextJob int
	using   bool          // the packet before next is in use
	worked  bool          // there were jobs the last time
	pause   time.Duration // after the last error, if that may pass
}

// newReader makes the first reader of a socket.
func (k *packetSocket) newReader() *packetReader {
	return newPacketReader(k, datagram.NewSlots(k.conn, &k.srv.pools.Read))
}

func newPacketReader(k *packetSocket, slots *datagram.Slots) *packetReader {
	r := &packetReader{k: k, slots: slots}
	r.expire = func(n *timingwheel.Node[*packetPeer]) { r.jobs = append(r.jobs, packetJob{n.Value, true}) }
	return r
}

func (r *packetReader) run() {
	defer r.k.end()
	defer r.abandon()
	for {
		if !r.finishWork() {
			r.done = true
			return
		}
		if !r.gather() {
			r.done = true
			r.close()
			return
		}
	}
}

// close is the end of the socket.
func (r *packetReader) close() {
	k := r.k
	k.conn.Close()
	r.slots.Close()
	k.srv.sockets.remove(k)
	close(k.ended)
}

// abandon is the end of a reader. When a handler has ended the goroutine, the socket still has to be read.
func (r *packetReader) abandon() {
	if r.done {
		return
	}
	p := r.p
	p.s.mu.Lock()
	p.takeOverLocked()
	if p.reader == r { // of a dialed socket
		p.reader = nil
		r.handOn()
	}
	p.s.mu.Unlock()
	p.dropTurn()
}

// takeOverLocked has another reader go on with the socket while p has its turn inline. It reports whether it did.
func (p *packetPeer) takeOverLocked() bool {
	r := p.reader
	if r == nil || p.k.single {
		return false
	}
	p.reader = nil
	p.pace.Lost(p.k.srv.clock())
	r.handOn()
	return true
}

// handOn starts a reader that goes on with what r has not begun. The buffer in use is left to r.
func (r *packetReader) handOn() {
	k := r.k
	heir := newPacketReader(k, r.slots)
	heir.n, heir.next, heir.from = r.n, r.next, r.from
	heir.jobs, heir.nextJob, heir.worked = r.jobs, r.nextJob, r.worked
	if r.using {
		heir.slots.Replace(r.next - 1)
	}
	k.turn.Add(1)
	k.begin()
	go heir.run()
}

// finishWork does the jobs and handles the datagrams that were gathered, and reports whether the socket is still this reader's.
func (r *packetReader) finishWork() bool {
	k := r.k
	if r.n == 0 && len(r.jobs) == 0 {
		return true
	}
	k.srv.watch.Ensure()
	if !k.single || !k.pulls() {
		k.out.Cork()
	}
	for r.nextJob < len(r.jobs) {
		j := r.jobs[r.nextJob]
		r.nextJob++
		if !r.serve(j.p, mail{tick: j.late}, nil) {
			return false
		}
	}
	for r.next < r.n {
		i := r.next
		r.next++
		if !r.deliver(i) {
			return false
		}
	}
	k.out.Uncork()
	if r.n > 0 {
		r.slots.Adapt(r.n)
	}
	clear(r.jobs)
	r.jobs, r.nextJob, r.n, r.next = r.jobs[:0], 0, 0, 0
	return true
}

// deliver gives a datagram to the session of its peer, and reports whether the socket is still this reader's.
func (r *packetReader) deliver(i int) bool {
	k, packet := r.k, &r.slots.Packets[i]
	name := packetName{at: packet.Addr}
	if r.from != nil {
		name = packetName{text: r.from.Network() + " " + r.from.String()}
	}
	p := k.find(name)
	if p == nil && !k.single && !k.stopped() {
		p = k.admit(name, r.from)
	}
	if p == nil {
		return true
	}
	if packet.Truncated {
		p.bad(errTruncated)
		return true
	}
	r.using = true
	mine := r.serve(p, mail{buf: r.slots.Buffer(i), n: len(packet.Data)}, packet.Data)
	if mine {
		r.using = false
	}
	return mine
}

// serve does what there is for a session: it handles a datagram, or looks what a job is about; with a tick in m, the clock. It reports
// whether the socket is still this reader's.
func (r *packetReader) serve(p *packetPeer, m mail, data []byte) bool {
	s := p.s
	s.mu.Lock()
	if m.tick && !p.concluded {
		m.tick = s.lateLocked()
		s.armLocked()
	}
	if m.buf != nil && s.o.IdleTimeout > 0 {
		s.lastRead.Store(r.k.now.Load())
	}
	closed := s.phase.Load() == phaseClosed
	switch {
	case p.concluded, p.busy && closed:
		if m.buf != nil {
			s.srv.shard(s).lost.Add(1)
		}
		s.mu.Unlock()
		return true
	case p.busy:
		p.owed = p.owed || m.tick
		if m.buf != nil {
			p.keepLocked(data)
		}
		s.mu.Unlock()
		return true
	case !closed && s.opened && m == (mail{}) && p.inbox.Count == 0:
		s.mu.Unlock()
		return true
	}
	p.busy = true
	if !closed && p.slowLocked() {
		if m.buf != nil {
			p.keepLocked(data)
			m.buf = nil
		}
		p.giveAwayLocked(m)
		return true
	}
	return r.giveLocked(p, m)
}

// giveLocked gives p its turn inline. It releases mu, and reports whether the socket is still this reader's.
func (r *packetReader) giveLocked(p *packetPeer, m mail) bool {
	k, s := r.k, p.s
	p.reader, r.p = r, p
	p.pace.Begin()
	k.cur.Store(p)
	k.turn.Add(1)
	s.mu.Unlock()
	more := p.run(m)
	s.mu.Lock()
	mine := p.reader == r
	if mine {
		p.reader = nil
		k.turn.Add(1)
	}
	if mine && more { // somebody has filled the inbox, so it is slow
		p.giveAwayLocked(mail{})
		return true
	}
	s.mu.Unlock()
	if mine {
		return true
	}
	for more {
		more = p.run(mail{})
	}
	return false
}

// gather looks what there is to do, and otherwise reads. It returns false when the socket is at its end.
func (r *packetReader) gather() bool {
	k := r.k
	now := k.srv.clock()
	k.now.Store(now)
	k.mu.Lock()
	at, armed := k.wheel.Next()
	due := len(k.posted) > 0 || armed && at <= now
	if due && !r.worked {
		for i, p := range k.posted {
			p.posted = false
			r.jobs = append(r.jobs, packetJob{p: p})
			k.posted[i] = nil
		}
		k.posted = k.posted[:0]
		k.wheel.Advance(now, r.expire)
		r.worked = len(r.jobs) > 0
		k.mu.Unlock()
		return true
	}
	r.worked = false
	if k.overLocked() {
		k.mu.Unlock()
		return false
	}
	broken := k.broken != nil
	switch {
	case due: // it is the datagrams' turn, if there are any
		at = now + int64(time.Millisecond)
	case !armed:
		at = 0
	}
	k.setDeadlineLocked(max(at, 0))
	k.asleep = !due
	k.mu.Unlock()
	switch {
	case !broken:
		r.read()
	case !due:
		<-k.bell
	}
	k.mu.Lock()
	k.asleep = false
	k.mu.Unlock()
	return true
}

// read waits for datagrams.
func (r *packetReader) read() {
	k := r.k
	n, from, err := k.conn.Read(r.slots.Packets)
	if err == nil {
		r.n, r.next, r.from, r.pause = n, 0, from, 0
		k.now.Store(k.srv.clock())
		return
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
	case k.single && datagram.NobodyListens(err):
		k.abortAll(fmt.Errorf("session: read: %w", err))
	case datagram.NobodyListens(err), errors.As(err, new(*transport.PacketError)): // of a datagram that was sent before
	case !errors.Is(err, net.ErrClosed) && temporary(err):
		r.pause = min(max(2*r.pause, acceptPause), acceptPauseMax)
		k.srv.pause("session: reading datagrams failed, will try again", err, r.pause, k.bell)
	default:
		err = fmt.Errorf("session: read: %w", err)
		k.mu.Lock()
		k.broken = err
		k.mu.Unlock()
		k.abortAll(err)
	}
}

// pulls reports whether the messages of the one session are received: then nobody knows how long a turn takes.
func (k *packetSocket) pulls() bool {
	p := k.own
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.s.pull != nil
}

// abortAll ends all sessions of the socket.
func (k *packetSocket) abortAll(err error) {
	k.mu.Lock()
	all := make([]*packetPeer, 0, len(k.peers)+len(k.others))
	for _, p := range k.peers {
		all = append(all, p)
	}
	for _, p := range k.others {
		all = append(all, p)
	}
	k.mu.Unlock()
	for _, p := range all {
		p.s.fail(ByError, err)
	}
}
