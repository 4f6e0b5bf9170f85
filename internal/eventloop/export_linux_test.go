package eventloop

// Relay returns the descriptor that the runtime's poller watches for a poller that has parked.
func Relay(p *Poller) int { return p.relay.fd }

// Asleep reports whether a thread waits for something other than a processor.
func Asleep(thread int) bool { return asleep(thread) }

// Break makes the next call of Accept fail.
func Break(a *Acceptor) { a.accepts.Close() }
