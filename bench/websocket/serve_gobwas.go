package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/gobwas/ws"

	"github.com/sluice-push/sluice/bench/internal/server"
)

// gobwasServer is a server of gobwas/ws, of its lower level: the upgrade without copies on the bare connection, headers and masks by
// the package, and buffers that are ours. One Flush sends the answers to all that was read.
type gobwasServer struct {
	all       *group[net.Conn]
	broadcast bool
	toAll     func(msg []byte)
	writers   sync.Pool
	scratches sync.Pool
}

// scratch is what a connection borrows while it answers.
type scratch struct {
	head    [ws.MaxHeaderSize]byte
	payload []byte
}

func newGobwas(broadcast bool) *gobwasServer {
	s := &gobwasServer{all: newGroup[net.Conn](), broadcast: broadcast}
	s.toAll = toAll(s.all, func(msg []byte) ([]byte, error) { return ws.CompileFrame(ws.NewBinaryFrame(msg)) }, writeFrame)
	s.writers.New = func() any { return bufio.NewWriter(nil) }
	s.scratches.New = func() any { return new(scratch) }
	return s
}

// startGobwasHTTP starts it under net/http, whose buffer for reading it keeps.
func startGobwasHTTP(ln net.Listener, broadcast bool) *server.Served {
	s := newGobwas(broadcast)
	return s.all.serve(ln, func(w http.ResponseWriter, r *http.Request) {
		c, rw, _, err := ws.UpgradeHTTP(r, w)
		if err != nil {
			return
		}
		go s.all.run(c, c.Close, func() {
			for s.answers(c, rw.Reader) == nil {
			}
		})
	})
}

func startGobwas(ln net.Listener, broadcast bool) *server.Served {
	s := newGobwas(broadcast)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			accepting.Go(func() { s.serve(c) })
		}
	})
	return &server.Served{Conns: s.all.len, Close: func() {
		_ = ln.Close()
		s.all.close()
		accepting.Wait()
	}}
}

func writeFrame(c net.Conn, frame []byte) error {
	_, err := c.Write(frame)
	return err
}

func (s *gobwasServer) serve(c net.Conn) {
	s.all.run(c, c.Close, func() {
		if _, err := ws.Upgrade(c); err != nil {
			return
		}
		br := bufio.NewReader(c)
		for s.answers(c, br) == nil {
		}
	})
}

// answers waits for a message, and answers it and those that were read with it.
func (s *gobwasServer) answers(c net.Conn, br *bufio.Reader) error {
	if _, err := br.Peek(1); err != nil {
		return err
	}
	bw, b := s.writers.Get().(*bufio.Writer), s.scratches.Get().(*scratch)
	defer func() {
		bw.Reset(nil)
		s.writers.Put(bw)
		s.scratches.Put(b)
	}()
	bw.Reset(c)
	for {
		if err := s.answer(br, bw, b); err != nil {
			return err
		}
		if br.Buffered() == 0 {
			return bw.Flush()
		}
	}
}

// answer answers one frame.
func (s *gobwasServer) answer(br *bufio.Reader, bw *bufio.Writer, b *scratch) error {
	h, err := ws.ReadHeaderBuffer(br, b.head[:])
	if err != nil {
		return err
	}
	b.payload = slices.Grow(b.payload[:0], int(h.Length))[:h.Length]
	p := b.payload
	if _, err := io.ReadFull(br, p); err != nil {
		return err
	}
	ws.Cipher(p, h.Mask, 0)
	h.Masked, h.Mask = false, [4]byte{}
	switch {
	case h.OpCode == ws.OpClose:
		return io.EOF
	case h.OpCode == ws.OpPing:
		h.OpCode = ws.OpPong
	case s.broadcast:
		s.toAll(p)
		return nil
	}
	if err := ws.WriteHeaderBuffer(bw, h, b.head[:]); err != nil {
		return err
	}
	_, err = bw.Write(p)
	return err
}
