package datagram

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/eventloop"
	"github.com/sluice-push/sluice/timingwheel"
)

const (
	tick  = 20 * time.Millisecond // of the timing wheel
	slots = 1024
)

// Config is what a Socket needs.
type Config struct {
	Conn Conn
	Pool *buffer.Pool // lends the buffers that datagrams are read into
	// Waits and WriteTimeout are those of the Sender's Options.
	Waits        bool
	WriteTimeout time.Duration

	Now     func() int64     // monotonic nanoseconds
	Epoch   time.Time        // the time at which Now returns 0
	OnStall func()           // is called when Sockets.Tick should be called again and again until it returns false; must not block
	Retry   func(error) bool // reports whether an error of reading may pass
	// Pause waits for so long after such an error, or until something comes from wake.
	Pause func(err error, pause time.Duration, wake <-chan struct{})
	// Admit returns a new member for a peer that has none, or nil if it refuses the peer. other is the address if that is not an IP address; it is
	// for Init. The reader calls Admit for each datagram of such a peer, without a lock.
	Admit func(at netip.AddrPort, other *OtherAddr) Member
}

// OtherAddr is the address of a peer that is not an IP address.
type OtherAddr struct {
	Addr net.Addr
	text string // tells it from all others
}

// Socket runs the members of one datagram socket: one for each peer. Any goroutine may use it.
type Socket struct {
	// Set when made.
	cfg       Config
	connected bool          // the socket has one peer, and one member: see Start
	local     net.Addr      // LocalAddr, also after Close
	ended     chan struct{} // closed when no reader is left
	wake      chan struct{} // wakes a reader that does not read; capacity 1
	set       *Sockets      // set by Add
	only      *Registration // of a connected socket; set by Start, for the reader

	work    sync.WaitGroup // goroutines
	copies  Copies
	sender  *Sender
	now     atomic.Int64 // the time when the reader last looked
	offload eventloop.OffloadGroup

	// The sequence number is odd while the reader dispatches current. A reader that loses the socket finds another number.
	seq     atomic.Uint64
	current atomic.Pointer[Registration]
	stall   uint64 // owned by Sockets.Tick: the sequence number at the last call

	mu sync.Mutex
	// Guarded by mu.
	peers    map[netip.AddrPort]*Registration
	others   map[string]*Registration // peers whose addresses are not IP addresses
	wheel    *timingwheel.Wheel[*Registration]
	posted   []*Registration
	asleep   bool  // the reader waits, and a change of the deadline wakes it
	deadline int64 // of the connection, by the clock; 0 is none
	stopping bool
	broken   error // why the socket cannot be read any more
}

// NewSocket returns a Socket that does nothing yet. connected says that it is to have one member only: see Start.
func NewSocket(cfg *Config, connected bool) *Socket {
	n := slots
	if connected {
		n = 1
	}
	k := &Socket{
		cfg: *cfg, connected: connected, local: cfg.Conn.Local(), ended: make(chan struct{}), wake: make(chan struct{}, 1),
		peers: make(map[netip.AddrPort]*Registration), wheel: timingwheel.NewWheel[*Registration](tick, n),
	}
	k.sender = NewSender(&Options{
		Conn: cfg.Conn, Connected: connected, Pool: cfg.Pool, Waits: cfg.Waits, WriteTimeout: cfg.WriteTimeout, Go: k.spawn,
	})
	return k
}

// Conn returns the connection.
func (k *Socket) Conn() Conn { return k.cfg.Conn }

// LocalAddr returns the address of the socket. It also works after the end.
func (k *Socket) LocalAddr() net.Addr { return k.local }

// IsConnected reports whether the socket has one peer only.
func (k *Socket) IsConnected() bool { return k.connected }

// Sender returns the outgoing side.
func (k *Socket) Sender() *Sender { return k.sender }

// Now returns the time when the reader last looked.
func (k *Socket) Now() int64 { return k.now.Load() }

// Run reads the socket until it is closed, and returns when all its goroutines have ended. The error says why the socket cannot be read any
// more; it is nil after Sockets.Stop.
func (k *Socket) Run() error {
	go k.newReader().run()
	<-k.ended
	k.work.Wait()
	return k.broken
}

// Start begins to read a connected socket, whose only member is m. The first dispatch, which opens m, comes at once.
func (k *Socket) Start(m Member) {
	k.only = m.Registration()
	k.insert(k.only)
	k.post(k.only)
	go k.newReader().run()
}

// begin counts a goroutine, which calls end.
func (k *Socket) begin() {
	k.work.Add(1)
	k.set.work.Add(1)
}

func (k *Socket) end() {
	k.work.Done()
	k.set.work.Done()
}

// spawn calls f on a goroutine that is counted.
func (k *Socket) spawn(f func()) {
	k.begin()
	go func() {
		defer k.end()
		f()
	}()
}

// find returns the member of a peer, or nil. For a peer without one it also says whether it may be admitted. If text is not empty, it identifies an
// address that is not an IP address.
func (k *Socket) find(at netip.AddrPort, text string) (r *Registration, admits bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if text != "" {
		r = k.others[text]
	} else {
		r = k.peers[at]
	}
	return r, !k.connected && !k.stopping
}

// admit asks for a member for a peer that has none, and returns nil if there will be none.
func (k *Socket) admit(at netip.AddrPort, from net.Addr, text string) *Registration {
	var other *OtherAddr
	if from != nil {
		other = &OtherAddr{from, text}
	}
	m := k.cfg.Admit(at, other)
	if m == nil {
		return nil
	}
	r := m.Registration()
	k.insert(r)
	return r
}

// insert makes a member known to the reader.
func (k *Socket) insert(r *Registration) {
	at, _ := r.m.Address()
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.other == nil {
		k.peers[at] = r
		return
	}
	if k.others == nil {
		k.others = make(map[string]*Registration)
	}
	k.others[r.other.text] = r
}

// remove is the end of a member. A member stays known until Close of its handler has returned, so that one peer never has two.
func (k *Socket) remove(r *Registration) {
	at, _ := r.m.Address()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wheel.Cancel(&r.timer)
	if r.other != nil {
		delete(k.others, r.other.text)
	} else {
		delete(k.peers, at)
	}
	if k.isOverLocked() {
		k.wakeLocked()
	}
}

// isOverLocked reports whether nothing is left to be done.
func (k *Socket) isOverLocked() bool {
	return (k.stopping || k.connected || k.broken != nil) && len(k.peers)+len(k.others) == 0
}

// stop makes the socket end with its last member.
func (k *Socket) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopping = true
	k.wakeLocked()
}

// post has the reader look at a member.
func (k *Socket) post(r *Registration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.posted {
		return
	}
	r.posted = true
	k.posted = append(k.posted, r)
	k.wakeLocked()
}

func (k *Socket) setTimer(r *Registration, at int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.timer.Scheduled() && r.timer.At() <= at {
		return
	}
	k.wheel.Schedule(&r.timer, at)
	if next, ok := k.wheel.Next(); ok && k.asleep && (k.deadline == 0 || next < k.deadline) {
		k.setDeadlineLocked(next)
	}
}

// past is a deadline that has passed.
const past = 1

// wakeLocked wakes the reader. The reader waits in the kernel with the deadline of the timing wheel, and moving the deadline into the past wakes it.
func (k *Socket) wakeLocked() {
	if !k.asleep {
		return
	}
	k.asleep = false
	k.setDeadlineLocked(past)
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *Socket) setDeadlineLocked(at int64) {
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
		by = k.cfg.Epoch.Add(time.Duration(at))
	}
	_ = k.cfg.Conn.SetReadDeadline(by)
}

// failAll ends all members.
func (k *Socket) failAll(err error) {
	k.mu.Lock()
	all := make([]Member, 0, len(k.peers)+len(k.others))
	for _, r := range k.peers {
		all = append(all, r.m)
	}
	for _, r := range k.others {
		all = append(all, r.m)
	}
	k.mu.Unlock()
	for _, m := range all {
		m.Fail(err)
	}
}
