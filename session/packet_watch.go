package session

// look is called by the watch: it sends what is held back for long, and takes over sockets whose handlers take their time. It reports
// whether there was something to see.
func (ps *packetSockets) look() (seen bool) {
	if ps.live.Load() == 0 {
		return false
	}
	ps.mu.Lock()
	for k := range ps.all {
		ps.visit = append(ps.visit, k)
	}
	ps.mu.Unlock()
	for _, k := range ps.visit {
		seen = k.look() || seen
	}
	clear(ps.visit)
	ps.visit = ps.visit[:0]
	return seen
}

// busy reports whether a handler is running inline, or something is gathered.
func (ps *packetSockets) busy() bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for k := range ps.all {
		if !k.single && k.turn.Load()%2 == 1 || k.out.Holds() {
			return true
		}
	}
	return false
}

// look is the watch's for one socket.
func (k *packetSocket) look() bool {
	waits := k.out.Look()
	if k.single { // there is nobody else to serve, and a turn may wait for who receives
		return waits
	}
	turn := k.turn.Load()
	if turn != k.seen {
		k.seen = turn
		return true
	}
	if turn%2 == 0 {
		return waits
	}
	p := k.cur.Load()
	if p == nil || !p.s.mu.TryLock() {
		return true
	}
	taken := k.turn.Load() == turn && p.takeOverLocked()
	p.s.mu.Unlock()
	if taken {
		k.slow.TookOver(k.srv.clock(), 0)
		p.s.wasTakenOver()
	}
	return true
}
