package transport

import sock "github.com/sluice-push/sluice/internal/socket"

// AddrPort is addrPort.
var AddrPort = addrPort

// NotSentLowat is TCP_NOTSENT_LOWAT.
const NotSentLowat = sock.NotSentLowat

// Lacking returns how many options are set on every connection of plain TCP that AcceptDescriptor, or else Accept, returns.
func (l *Listener) Lacking(descriptor bool) int {
	if descriptor {
		return l.bare.Lacking()
	}
	return l.conns.Lacking()
}
