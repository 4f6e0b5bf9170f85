package rpc

import (
	"context"
	"fmt"
	"net"

	"github.com/sluice-push/sluice/session"
)

// Dial connects to a server. Networks are "tcp", "tcp4", "tcp6" and "unix". ctx bounds only connecting. Nil options are all defaults. The connection
// does not come back when it has ended.
func Dial(ctx context.Context, network, address string, o *ConnOptions) (*Conn, error) {
	c := newConn(o)
	_, err := c.client.DialWith(ctx, network, address, c.attach())
	if err = c.open(ctx, err); err != nil {
		return nil, &Error{Code: Unavailable, Message: fmt.Sprintf("cannot connect to %s: %v", address, err), cause: err}
	}
	return c, nil
}

// NewConn makes calls over a connection that exists already, which belongs to the Conn from now on. ctx bounds waiting: for the handshake of a tls.Conn,
// and for what AwaitServer waits for.
func NewConn(ctx context.Context, conn net.Conn, o *ConnOptions) (*Conn, error) {
	c := newConn(o)
	_, err := c.client.ServeConn(conn, c.attach())
	if err = c.open(ctx, err); err != nil {
		return nil, &Error{Code: Unavailable, Message: "the connection cannot be used: " + err.Error(), cause: err}
	}
	return c, nil
}

// open waits until the session has opened, and for the first frame if that is wanted. err is the error of making the session.
func (c *Conn) open(ctx context.Context, err error) error {
	if err == nil {
		select {
		case <-c.opened:
			if c.greet(); c.met == nil {
				return nil
			}
			err = c.meet(ctx)
		case err = <-c.refused:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		_ = c.client.Close()
	}
	return err
}

// meet waits for the first frame of the server, as ConnOptions.AwaitServer asks.
func (c *Conn) meet(ctx context.Context) error {
	select {
	case <-c.met:
		return nil
	case <-c.closed:
		return fmt.Errorf("the server has closed the connection at once: %w", c.err)
	case <-ctx.Done():
		return fmt.Errorf("the server has not answered in time: %w", context.Cause(ctx))
	}
}

// attach returns the codec and the handler of the session. Open has run when opened is closed.
func (c *Conn) attach() *session.Attach {
	open := func(*session.Session) error {
		close(c.opened)
		return nil
	}
	return &session.Attach{
		Codec:   c.codec,
		Made:    func(s *session.Session) { c.session = s },
		Handler: &session.Handler{Open: open, Message: c.message, Tick: c.tick, Close: c.ended},
	}
}

// observer returns the user's observer, extended: if the handshake of the session fails, it sends the error to c.refused.
func (c *Conn) observer(users *session.Observer) *session.Observer {
	var o session.Observer
	if users != nil {
		o = *users
	}
	refused := o.Refused
	o.Refused = func(remote net.Addr, err error) {
		if refused != nil {
			refused(remote, err)
		}
		select {
		case c.refused <- err:
		default:
		}
	}
	return &o
}
