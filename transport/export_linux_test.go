package transport

import sock "github.com/sluice-push/sluice/internal/socket"

// AddrPort is addrPort.
var AddrPort = addrPort

// NotSentLowat is TCP_NOTSENT_LOWAT.
const NotSentLowat = sock.NotSentLowat
