package datagram

import (
	"sync"
	"sync/atomic"
)

// Sockets are the sockets of one server. The zero value is ready. Any goroutine may use it, but Tick has one caller at a time.
type Sockets struct {
	mu    sync.Mutex
	all   map[*Socket]struct{} // guarded by mu
	count atomic.Int32         // of all
	work  sync.WaitGroup       // goroutines of all of them

	visited []*Socket // owned by Tick
}

// Add adds a socket, before Run or Start. The socket removes itself when it has ended.
func (ss *Sockets) Add(k *Socket) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.all == nil {
		ss.all = make(map[*Socket]struct{})
	}
	ss.all[k] = struct{}{}
	ss.count.Add(1)
	k.set = ss
	k.begin() // for the first reader
}

func (ss *Sockets) remove(k *Socket) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.all, k)
	ss.count.Add(-1)
}

// Stop makes each socket end with its last member. New peers are not admitted any more.
func (ss *Sockets) Stop() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for k := range ss.all {
		k.stop()
	}
}

// Wait waits until all goroutines of the sockets have ended.
func (ss *Sockets) Wait() { ss.work.Wait() }

// Tick sends what has been corked for long, and hands off sockets whose readers stand still in a dispatch. Called every millisecond, it bounds how
// long a handler holds other members up. It reports whether it has seen anything.
func (ss *Sockets) Tick() (seen bool) {
	if ss.count.Load() == 0 {
		return false
	}
	ss.mu.Lock()
	for k := range ss.all {
		ss.visited = append(ss.visited, k)
	}
	ss.mu.Unlock()
	for _, k := range ss.visited {
		seen = k.tick() || seen
	}
	clear(ss.visited)
	ss.visited = ss.visited[:0]
	return seen
}

// IsBusy reports whether Tick has to be called: a reader dispatches, or datagrams are corked.
func (ss *Sockets) IsBusy() bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for k := range ss.all {
		if !k.connected && k.seq.Load()%2 == 1 || k.sender.HasCorked() {
			return true
		}
	}
	return false
}

// IsAsleep reports whether every reader waits for datagrams and has nothing to do.
func (ss *Sockets) IsAsleep() bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for k := range ss.all {
		k.mu.Lock()
		asleep := k.asleep && len(k.posted) == 0
		k.mu.Unlock()
		if !asleep {
			return false
		}
	}
	return true
}

// tick is Tick for one socket. A dispatch that is seen twice has taken about a millisecond.
func (k *Socket) tick() (seen bool) {
	corked := k.sender.Tick()
	if k.connected { // no other member is held up
		return corked
	}
	seq := k.seq.Load()
	if seq != k.stall {
		k.stall = seq
		return true
	}
	if seq%2 == 0 {
		return corked
	}
	r := k.current.Load()
	if r == nil || !r.m.TryLock() {
		return true
	}
	handedOff := k.seq.Load() == seq && r.Release()
	r.m.Unlock()
	if handedOff {
		k.offload.Blocked(k.cfg.Now())
		r.m.HandedOff()
	}
	return true
}
