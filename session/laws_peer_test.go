package session_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// peer is a client of a trial.
type peer struct {
	number   uint32
	rnd      *rand.Rand
	pause    time.Duration // between two reads
	received []byte
	whole    bool // the peer has seen the orderly end
	broken   bool // a write failed, so a read may not get the reset
}

// patience is how long a peer goes on reading when the server is closed. With small buffers TCP waits for timers of its own.
const patience = 50 * time.Millisecond

// run sends for a while, reads or does not, and ends the connection in one way or another.
func (p *peer) run(over context.Context, dial func() (net.Conn, error)) {
	conn, err := dial()
	if err != nil {
		if conn != nil {
			_ = conn.Close()
		}
		return
	}
	_ = conn.SetDeadline(time.Now().Add(limit))
	defer context.AfterFunc(over, func() { _ = conn.SetDeadline(time.Now().Add(patience)) })()
	if tcp, ok := conn.(*net.TCPConn); ok && p.rnd.IntN(2) == 0 {
		_ = tcp.SetReadBuffer(32 << 10)
	}
	var reader sync.WaitGroup
	p.pause = choose(p.rnd, 0, 0, 100*time.Microsecond, time.Millisecond)
	most := choose(p.rnd, 0, 50_000, 1<<30, 1<<30, 1<<30)
	reader.Go(func() { p.read(conn, most) })
	p.talk(conn)
	p.leave(conn)
	reader.Wait()
	p.whole = p.whole && !p.broken
	_ = conn.Close()
}

// read reads up to most bytes.
func (p *peer) read(conn net.Conn, most int) {
	chunk := make([]byte, 4<<10)
	for len(p.received) < most {
		n, err := conn.Read(chunk)
		p.received = append(p.received, chunk[:n]...)
		if p.pause > 0 {
			<-time.After(p.pause)
		}
		if err != nil {
			p.whole = errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
			return
		}
	}
}

// talk sends messages, some in pieces, some together, and perhaps bytes that cannot be decoded.
func (p *peer) talk(conn net.Conn) {
	var out []byte
	for i := range choose(p.rnd, 0, 1, 10, 50) {
		out = binary.BigEndian.AppendUint32(out, uint32(8+p.rnd.IntN(20)))
		size := int(binary.BigEndian.Uint32(out[len(out)-4:]))
		out = binary.BigEndian.AppendUint32(out, p.number)
		out = binary.BigEndian.AppendUint32(out, uint32(i))
		out = append(out, make([]byte, size-8)...)
		n := choose(p.rnd, 0, 0, 1, len(out)/2, len(out), len(out))
		if !p.write(conn, out[:n]) {
			return
		}
		out = out[n:]
		if p.rnd.IntN(8) == 0 {
			<-time.After(time.Duration(p.rnd.IntN(4)) * time.Millisecond)
		}
	}
	if p.rnd.IntN(8) == 0 || !p.write(conn, out) {
		return // perhaps in the middle of a message
	}
	if p.rnd.IntN(8) == 0 {
		p.write(conn, []byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3})
	}
}

func (p *peer) write(conn net.Conn, b []byte) bool {
	_, err := conn.Write(b)
	p.broken = p.broken || err != nil
	return err == nil
}

// leave ends the connection, or waits for the server to end it.
func (p *peer) leave(conn net.Conn) {
	half, canHalf := conn.(interface{ CloseWrite() error })
	tcp, isTCP := conn.(*net.TCPConn)
	switch way := p.rnd.IntN(5); {
	case way == 0:
		_ = conn.Close()
	case way == 1 && isTCP: // reset the connection
		_ = tcp.SetLinger(0)
		_ = conn.Close()
	case way <= 2 && canHalf:
		p.broken = half.CloseWrite() != nil || p.broken // over TLS it writes
	case way == 3:
		_ = conn.SetDeadline(time.Now().Add(time.Duration(p.rnd.IntN(60)) * time.Millisecond))
	default: // read until the server ends the connection
	}
}
