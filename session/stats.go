package session

import (
	"net"
	"sync/atomic"

	"github.com/sluice-push/sluice/transport"
)

// Stats are the counters of a server since it was made, and the numbers of its present sessions and event loops.
type Stats struct {
	Sessions int // sessions that are live now
	Loops    int // event loops that there are now

	Opened   uint64 // sessions whose Open was called
	Closed   uint64 // sessions that ended after Open was called
	Refused  uint64 // connections refused: by a limit, for their handshake or PROXY header, or by Open
	Shed     uint64 // connections closed because there was no descriptor for them: see transport.Listener
	Messages uint64 // messages handed to Message; those of one read are counted together, when they have been handled
	BytesIn  uint64 // bytes received
	BytesOut uint64 // bytes that connections took
	Drops    uint64 // frames refused or dropped because a queue was full; frames that TryWrite did not take do not count
	Panics   uint64 // panics in handlers and codecs

	BadDatagrams  uint64 // datagrams whose rest could not be decoded, or that were too large
	LostDatagrams uint64 // datagrams received and dropped: the inbox of their session was full, or the session was ending

	HandedOff uint64 // handlers that kept an event loop for too long, so that it was handed off
	Moved     uint64 // dispatches on goroutines, because handlers had blocked before, or by the executor
}

// counters are spread over several cache lines, so that sessions on different processors do not contend for one.
type counters struct {
	opened, closed, refused, messages, bytesIn, bytesOut, drops, panics, handedOff, moved, bad, lost atomic.Uint64
	_                                                                                                [64]byte
}

const counterShards = 16

// shard returns the counters in which s is counted.
func (srv *Server) shard(s *Session) *counters { return &srv.counters[s.id%counterShards] }

// Stats returns the server's counters. They are not all read at the same instant.
func (srv *Server) Stats() Stats {
	st := Stats{Loops: srv.loops.count()}
	srv.mu.Lock()
	st.Sessions, st.Shed = len(srv.live), srv.shed
	for ln := range srv.listeners {
		st.Shed += shedBy(ln)
	}
	srv.mu.Unlock()
	for i := range srv.counters {
		c := &srv.counters[i]
		st.Opened += c.opened.Load()
		st.Closed += c.closed.Load()
		st.Refused += c.refused.Load()
		st.Messages += c.messages.Load()
		st.BytesIn += c.bytesIn.Load()
		st.BytesOut += c.bytesOut.Load()
		st.Drops += c.drops.Load()
		st.Panics += c.panics.Load()
		st.HandedOff += c.handedOff.Load()
		st.Moved += c.moved.Load()
		st.BadDatagrams += c.bad.Load()
		st.LostDatagrams += c.lost.Load()
	}
	return st
}

// shedBy returns how many connections ln has closed because there was no descriptor for them.
func shedBy(ln net.Listener) uint64 {
	if l, ok := ln.(*transport.Listener); ok {
		return l.Stats().Shed
	}
	return 0
}
