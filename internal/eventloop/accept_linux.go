package eventloop

import (
	"net"

	"github.com/sluice-push/sluice/transport"
)

// Acceptor accepts the connections of a listener on a loop's thread, as long as that succeeds. The owner of the listener handles errors, on a
// goroutine that may block.
type Acceptor struct {
	here    net.Addr
	ln      *transport.Listener
	admit   func(transport.Descriptor, net.Addr)
	accepts *transport.Acceptor
	stopped chan struct{} // closed when the thread has stopped accepting
}

// NewAcceptor registers a listener with a poller, under an id. Errors are those of [transport.Listener.Acceptor].
func NewAcceptor(ln *transport.Listener, p *Poller, id uint64, admit func(transport.Descriptor, net.Addr)) (*Acceptor, error) {
	a := &Acceptor{here: ln.Addr(), ln: ln, admit: admit, stopped: make(chan struct{})}
	var err error
	a.accepts, err = ln.Acceptor(func(fd int) error { return p.Add(fd, In, id) }, func(fd int) { _ = p.Remove(fd) })
	return a, err
}

// Wait returns when the thread accepts no more, after an error or because the listener was closed. The poller does not know the listener then.
func (a *Acceptor) Wait() {
	select {
	case <-a.stopped:
	case <-a.ln.Closed():
	}
	a.accepts.Close()
}

// maxAccepts is how many connections a thread accepts before it dispatches members.
const maxAccepts = 32

// Accept admits the connections that wait, or the first of them. It is called when the listener was reported, by one goroutine at a time.
func (a *Acceptor) Accept() {
	for range maxAccepts {
		conn, ok, err := a.accepts.Accept()
		if err != nil {
			a.accepts.Close()
			close(a.stopped)
		}
		if !ok {
			return
		}
		a.admit(conn, a.here)
	}
}
