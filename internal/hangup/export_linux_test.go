package hangup

// Hollow is how many reads have to find nothing before a peer should be watched.
const Hollow = int(due)

// Hold keeps w from telling anybody anything until the function it returns is called.
func (w *Watch) Hold() (release func()) {
	w.mu.Lock()
	return w.mu.Unlock
}

// Begun reports whether w has a list, and so a goroutine that looks at it.
func (w *Watch) Begun() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.list != nil
}

// Over reports whether the end of the peer has been told.
func (p *Peer) Over() bool { return p.state.Load() == over }
