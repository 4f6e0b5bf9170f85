package testwait

import (
	"net"
	"net/http"
	"sync"
)

// Conns has a server, which does not serve yet, count its connections. The result waits until they have ended, after the server was closed: it is for
// [Return]. The goroutine of a connection on which a body was refused sleeps for half a second before it ends, whatever Close does, and would look like
// a leak.
func Conns(s *http.Server) (wait func()) {
	var open sync.WaitGroup
	before := s.ConnState
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if before != nil {
			before(c, state)
		}
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Done()
		}
	}
	return open.Wait
}
