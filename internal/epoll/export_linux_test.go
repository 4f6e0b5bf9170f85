package epoll

// Relay returns the descriptor that the runtime's poller watches for a list. Somebody has to have parked before.
func Relay(l *List) int { return l.relay.fd }
