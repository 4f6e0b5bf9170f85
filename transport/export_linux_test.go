package transport

// AddrPort is addrPort.
var AddrPort = addrPort

// NotSentLowat is TCP_NOTSENT_LOWAT.
const NotSentLowat = tcpNotSentLowat
