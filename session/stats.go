package session

import "sync/atomic"

// Stats are the counters of a server since it was made, and the number of sessions now.
type Stats struct {
	Sessions int    // live now
	Opened   uint64 // sessions whose Open was called
	Closed   uint64 // sessions that ended after that
	Refused  uint64 // connections refused: by a limit, in the TLS handshake, or by Open
	Messages uint64 // messages handed to Message
	BytesIn  uint64 // bytes received
	BytesOut uint64 // bytes that connections took
	Drops    uint64 // frames refused or dropped because a queue was full; not those that TryWrite did not take
	Panics   uint64 // panics in handlers and codecs
}

// counters are spread over a few cache lines, so that sessions on different processors do not fight for one.
type counters struct {
	opened, closed, refused, messages, bytesIn, bytesOut, drops, panics atomic.Uint64
	_                                                                   [64]byte
}

const counterShards = 16

// shard returns the counters in which s is counted.
func (srv *Server) shard(s *Session) *counters { return &srv.counters[s.id%counterShards] }

// Stats returns the server's counters. They are not read at one instant.
func (srv *Server) Stats() Stats {
	st := Stats{Sessions: srv.Len()}
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
	}
	return st
}
