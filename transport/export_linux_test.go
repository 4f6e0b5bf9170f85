package transport

import "github.com/sluice-push/sluice/internal/sockopt"

// AddrPort is addrPort.
var AddrPort = addrPort

// NotSentLowat is TCP_NOTSENT_LOWAT.
const NotSentLowat = sockopt.NotSentLowat

// Lacking returns how many options have to be set on every plain TCP connection that AcceptDescriptor returns, or Accept if bare is false.
func (l *Listener) Lacking(descriptor bool) int {
	if descriptor {
		return l.bare.Missing()
	}
	return l.conns.Missing()
}
