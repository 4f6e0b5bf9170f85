package rpc

import (
	"container/list"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sluice-push/sluice/rpc/frame"
)

// maxUnprovenFrame is the size in bytes of the largest frame that an unproven connection may send.
const maxUnprovenFrame = 64 << 10

// errUnproven is in the cause of the end of an unproven connection that had to make room for a newer one.
var errUnproven = errors.New("rpc: no call was successful, and newer connections need the room")

// unproven holds the unproven connections of a server, the oldest first, and counts the others. See Options.MaxUnproven.
type unproven struct {
	most int // 0: no bound, and nothing is held

	mu     sync.Mutex // guards the following, and the places of connections
	conns  list.List  // of *serverConn
	proven int        // the number of open connections that are proven
}

// proof says whether a connection is proven.
type proof struct {
	isProven atomic.Bool   // or the connection has ended; written under unproven.mu
	place    *list.Element // nil if the connection is not among the unproven ones
}

// add adds a connection. If there are too many then, the oldest one is ended.
func (u *unproven) add(c *serverConn) {
	if u.most == 0 {
		c.prove()
		return
	}
	var oldest *serverConn
	u.mu.Lock()
	c.proof.place = u.conns.PushBack(c)
	if u.conns.Len() > u.most {
		oldest, _ = u.conns.Remove(u.conns.Front()).(*serverConn)
		oldest.proof.place = nil
	}
	u.mu.Unlock()
	if oldest != nil {
		oldest.session.Abort(errUnproven)
	}
}

// end removes a connection that has ended.
func (u *unproven) end(c *serverConn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c.proof.isProven.Load() {
		u.proven--
	}
	u.proveLocked(c) // a call that ends later changes nothing
}

func (u *unproven) proveLocked(c *serverConn) {
	c.proof.isProven.Store(true)
	if c.proof.place != nil {
		u.conns.Remove(c.proof.place)
		c.proof.place = nil
	}
}

// count returns the number of proven connections.
func (u *unproven) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.proven
}

// prove notes that a call of the connection was successful. It returns before the call is answered, so that the client may send large frames when it
// has the answer.
func (c *serverConn) prove() {
	if c.proof.isProven.Load() {
		return
	}
	u := &c.server.unproven
	u.mu.Lock()
	defer u.mu.Unlock()
	if !c.proof.isProven.Load() {
		u.proven++
		u.proveLocked(c)
	}
}

// unprovenCodec is the codec of a connection. While the connection is unproven, large frames are errors, before they have arrived.
type unprovenCodec struct {
	*frame.Codec
	proof *proof
}

// Decode implements session.Codec.
func (u *unprovenCodec) Decode(in []byte) (body []byte, n int, err error) {
	wasProven := u.proof.isProven.Load()
	body, n, err = u.Codec.Decode(in)
	if err != nil || wasProven {
		return body, n, err
	}
	size := n
	if n <= 0 {
		size = len(in) - n // at least
	}
	if size = max(size, len(body)); size > maxUnprovenFrame { // a compressed body may be larger than its frame
		return nil, 0, fmt.Errorf("%w: before its first successful call, it has sent a frame of %d bytes or more, at most %d are allowed",
			errClient, size, maxUnprovenFrame)
	}
	return body, n, nil
}
