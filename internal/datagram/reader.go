package datagram

import (
	"errors"
	"net"
	"os"
	"time"

	"github.com/sluice-push/sluice/timingwheel"
	"github.com/sluice-push/sluice/transport/udp"
)

// One read of a socket, from top to bottom. A reader is a goroutine.
//
//	collect ──► jobs: posted members and timers ──► dispatch each ──► read a batch ──► dispatch each ──► collect ...
//	                                                   │                                  │
//	                     Tick sees the same dispatch twice, or Dispatch is about to wait for its peer:
//	                     another reader goes on with the rest, and this goroutine ends with its dispatch
//
// What the handlers of one batch send is corked meanwhile. A member that is running elsewhere gets its datagrams through its inbox. After a
// hand-off the member is offloaded for some seconds: it runs on goroutines of its own. See eventloop.OffloadGroup.

// The pauses after an error of reading that may pass.
const (
	pauseMin = 5 * time.Millisecond
	pauseMax = time.Second
)

// job is something to be done for a member besides handling a datagram.
type job struct {
	r     *Registration
	fired bool // its timer has fired
}

// reader reads a socket, until another reader takes its place.
type reader struct {
	k    *Socket
	fire func(*timingwheel.Node[*Registration]) // appends a job
	done bool                                   // it has ended in order

	// Owned by the reader. After a hand-off, the next reader has them: see Registration.reader.
	current *Registration // is dispatched, or was last
	slots   *Slots
	n, next int      // how many packets were read, and the first that is not begun
	from    net.Addr // of the only packet, if that is not an IP address
	jobs    []job
	nextJob int
	using   bool          // the packet before next is in use
	worked  bool          // there were jobs the last time
	pause   time.Duration // after the last error
}

// newReader returns the first reader of a socket.
func (k *Socket) newReader() *reader { return newReader(k, NewSlots(k.cfg.Conn, k.cfg.Pool)) }

func newReader(k *Socket, slots *Slots) *reader {
	rd := &reader{k: k, slots: slots}
	rd.fire = func(n *timingwheel.Node[*Registration]) { rd.jobs = append(rd.jobs, job{n.Value, true}) }
	return rd
}

func (rd *reader) run() {
	defer rd.k.end()
	defer rd.abandon()
	for {
		if !rd.dispatchAll() {
			rd.done = true
			return
		}
		if !rd.collect() {
			rd.done = true
			rd.close()
			return
		}
	}
}

// close is the end of the socket.
func (rd *reader) close() {
	k := rd.k
	k.cfg.Conn.Close()
	rd.slots.Close()
	k.set.remove(k)
	close(k.ended)
}

// abandon is the end of a reader. If a handler has ended the goroutine, another reader takes its place.
func (rd *reader) abandon() {
	if rd.done {
		return
	}
	r := rd.current
	r.m.Lock()
	r.Release()
	if r.reader == rd { // of a connected socket
		r.reader = nil
		rd.handOff()
	}
	r.m.Unlock()
	r.abandon()
}

// handOff starts a reader that goes on with what this one has not begun. The buffer in use stays with this one.
func (rd *reader) handOff() {
	k := rd.k
	next := newReader(k, rd.slots)
	next.n, next.next, next.from = rd.n, rd.next, rd.from
	next.jobs, next.nextJob, next.worked = rd.jobs, rd.nextJob, rd.worked
	if rd.using {
		next.slots.Replace(rd.next - 1)
	}
	k.seq.Add(1)
	k.begin()
	go next.run()
}

// collect looks what there is to do, and otherwise reads. It returns false if the socket is at its end. Jobs and reads alternate, so that neither
// has to wait for all of the other.
func (rd *reader) collect() bool {
	k := rd.k
	now := k.cfg.Now()
	k.now.Store(now)
	k.mu.Lock()
	at, armed := k.wheel.Next()
	due := len(k.posted) > 0 || armed && at <= now
	if due && !rd.worked {
		for i, r := range k.posted {
			r.posted = false
			rd.jobs = append(rd.jobs, job{r: r})
			k.posted[i] = nil
		}
		k.posted = k.posted[:0]
		k.wheel.Advance(now, rd.fire)
		rd.worked = len(rd.jobs) > 0
		k.mu.Unlock()
		return true
	}
	rd.worked = false
	if k.isOverLocked() {
		k.mu.Unlock()
		return false
	}
	broken := k.broken != nil
	switch {
	case due: // datagrams first, if there are any
		at = now + int64(time.Millisecond)
	case !armed:
		at = 0
	}
	k.setDeadlineLocked(max(at, 0))
	k.asleep = !due
	k.mu.Unlock()
	switch {
	case !broken:
		rd.read()
	case !due:
		<-k.wake
	}
	k.mu.Lock()
	k.asleep = false
	k.mu.Unlock()
	return true
}

// read waits for datagrams.
func (rd *reader) read() {
	k := rd.k
	n, from, err := k.cfg.Conn.Read(rd.slots.Packets)
	if err == nil {
		rd.n, rd.next, rd.from, rd.pause = n, 0, from, 0
		k.now.Store(k.cfg.Now())
		return
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
	case k.connected && PortClosed(err):
		k.failAll(err)
	case PortClosed(err), errors.As(err, new(*udp.Error)): // of a datagram that was sent before
	case !errors.Is(err, net.ErrClosed) && k.cfg.Retry(err):
		rd.pause = min(max(2*rd.pause, pauseMin), pauseMax)
		k.cfg.Pause(err, rd.pause, k.wake)
	default:
		k.mu.Lock()
		k.broken = err
		k.mu.Unlock()
		k.failAll(err)
	}
}

// dispatchAll does the jobs, and handles the datagrams that were read. It reports whether the socket is still this reader's.
func (rd *reader) dispatchAll() bool {
	k := rd.k
	if rd.n == 0 && len(rd.jobs) == 0 {
		return true
	}
	k.cfg.OnStall()
	if !k.connected || !k.isPulled() {
		k.sender.Cork()
	}
	for rd.nextJob < len(rd.jobs) {
		j := rd.jobs[rd.nextJob]
		rd.nextJob++
		if !rd.serve(j.r, Work{Tick: j.fired}, nil) {
			return false
		}
	}
	for rd.next < rd.n {
		i := rd.next
		rd.next++
		if !rd.deliver(i) {
			return false
		}
	}
	k.sender.Uncork()
	if rd.n > 0 {
		rd.slots.Adapt(rd.n)
	}
	clear(rd.jobs)
	rd.jobs, rd.nextJob, rd.n, rd.next = rd.jobs[:0], 0, 0, 0
	return true
}

// isPulled reports whether messages of the only member are received. A dispatch then takes as long as the receiver likes.
func (k *Socket) isPulled() bool {
	m := k.only.m
	m.Lock()
	defer m.Unlock()
	return m.IsPulled()
}

// deliver gives a datagram to the member of its peer. It reports whether the socket is still this reader's.
func (rd *reader) deliver(i int) bool {
	k, packet := rd.k, &rd.slots.Packets[i]
	text := ""
	if rd.from != nil {
		text = rd.from.Network() + " " + rd.from.String() // without a lock: these are methods of the user's
	}
	r, admits := k.find(packet.Addr, text)
	if r == nil && admits {
		r = k.admit(packet.Addr, rd.from, text)
	}
	if r == nil {
		return true
	}
	if packet.Truncated {
		r.m.Truncated()
		return true
	}
	rd.using = true
	mine := rd.serve(r, Work{Datagram: rd.slots.Buffer(i), N: len(packet.Data)}, packet.Data)
	if mine {
		rd.using = false
	}
	return mine
}

// serve does w for a member. Without a datagram it looks at the member's timer, if w.Tick is set, and otherwise at a posted member. It reports whether
// the socket is still this reader's.
func (rd *reader) serve(r *Registration, w Work, data []byte) bool {
	m := r.m
	m.Lock()
	if w.Tick && !r.concluded {
		w.Tick = m.TimerFired()
	}
	if w.Datagram != nil {
		m.Received(rd.k.now.Load())
	}
	ended := m.Ended()
	switch {
	case r.concluded, r.running && ended:
		if w.Datagram != nil {
			m.Lost()
		}
		m.Unlock()
		return true
	case r.running:
		r.tick = r.tick || w.Tick
		if w.Datagram != nil {
			r.keepLocked(data)
		}
		m.Unlock()
		return true
	case !ended && r.begun && w == (Work{}) && r.inbox.Count == 0:
		m.Unlock()
		return true
	}
	r.running, r.begun = true, true
	if !ended && r.runsOffReaderLocked() {
		if w.Datagram != nil {
			r.keepLocked(data)
		}
		r.offloadAndUnlock(w.Tick)
		return true
	}
	return rd.dispatchAndUnlock(r, w)
}

// dispatchAndUnlock dispatches a member on the reader's goroutine. It releases the lock, and reports whether the socket is still this reader's.
func (rd *reader) dispatchAndUnlock(r *Registration, w Work) bool {
	k, m := rd.k, r.m
	r.reader, rd.current = rd, r
	k.current.Store(r)
	k.seq.Add(1)
	m.Unlock()
	more := r.run(w)
	m.Lock()
	mine := r.reader == rd
	if mine {
		r.reader = nil
		k.seq.Add(1)
	}
	if mine && more { // the inbox was filled meanwhile, so the member is slow
		r.offloadAndUnlock(false)
		return true
	}
	m.Unlock()
	if mine {
		return true
	}
	for more {
		more = r.run(Work{})
	}
	return false
}
