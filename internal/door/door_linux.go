package door

import (
	"net"

	"github.com/sluice-push/sluice/internal/epoll"
	"github.com/sluice-push/sluice/transport"
)

// Door is a listener that an event loop watches. Wait is for its owner, Admit for the loop.
type Door struct {
	// Here is the address of the listener.
	Here net.Addr

	ln       *transport.Listener
	acceptor *transport.Acceptor
	left     chan struct{} // closed when the loop has left it
}

// Open puts a listener into the interest list of a loop, with data that says whose reports are those of the door. Errors are those of
// [transport.Listener.Acceptor].
func Open(ln *transport.Listener, list *epoll.List, data uint64) (*Door, error) {
	d := &Door{Here: ln.Addr(), ln: ln, left: make(chan struct{})}
	var err error
	d.acceptor, err = ln.Acceptor(func(fd int) error { return list.Add(fd, epoll.In, data) }, func(fd int) { _ = list.Remove(fd) })
	return d, err
}

// Wait returns when the loop accepts no more: after an error, or when the listener is closed. Nothing of the door is in the list then.
func (d *Door) Wait() {
	select {
	case <-d.left:
	case <-d.ln.Closed():
	}
	d.acceptor.Close()
}

// most is how many connections a loop accepts before it looks after others.
const most = 32

// Admit calls f with the connections that wait, or the first of them. It is called by one at a time, when the door was reported.
func (d *Door) Admit(f func(transport.Descriptor)) {
	for range most {
		conn, ok, err := d.acceptor.Accept()
		if err != nil {
			d.acceptor.Close()
			close(d.left)
		}
		if !ok {
			return
		}
		f(conn)
	}
}
