package session

import (
	"net"

	"github.com/sluice-push/sluice/internal/writer"
)

// engineConn is the connection of a session as its engine runs it. There are three engines. A goroutineConn has a goroutine that is parked while the
// peer is silent, for any net.Conn (goroutineconn.go). A loopConn is a descriptor on an event loop, which needs no goroutine while nothing
// happens (loopconn_linux.go); a loopTLSConn speaks TLS as well (looptls_linux.go). A packetConn is a peer of a datagram socket
// (packet_conn.go).
//
// Exactly one goroutine dispatches a session at a time: its own, or one that the loop or the socket has chosen. Methods whose names end in
// Locked are called with the session's mutex held. They do not block.
type engineConn interface {
	writer.Conn

	// start starts running the session.
	start()
	// reject closes the connection of a session that is not to be started.
	reject()
	// armLocked sets a timer: at the time that dueLocked returns, checkClocksLocked is called.
	armLocked()
	// abortLocked shuts the connection down, and wakes goroutines that wait for it. The phase is closed.
	abortLocked()
	// changedLocked is called after a change for which the end of a session may wait: a write or a helper goroutine has ended, everything is
	// written, or the phase is closed.
	changedLocked()
	// resumeLocked is called when messages may be handled again, because the Writer is no longer overloaded.
	resumeLocked()
	// willBlockLocked is called before a wait for this session's peer. It reports whether the running handler has lost its loop for that.
	willBlockLocked() bool

	// execute does the work of the session's task.
	execute()

	// net returns the connection, or nil if there is none any more.
	net() net.Conn
	remote() net.Addr
	local() net.Addr
}
