package main

import (
	"bufio"
	"io"
	"net"
	"sync"

	"github.com/sluice-push/sluice/bench/internal/server"
)

// The rungs of the ladder that servers on package net climb.
type rung int

const (
	unbuffered rung = iota // reads header and body from the connection, writes each answer to it
	buffered               // a bufio.Reader and a bufio.Writer, which is flushed when nothing more is buffered for reading
	pooled                 // the same, from pools, and so is the buffer of a frame, while one is here
	raw                    // raw system calls: what an engine with a goroutine for each connection could reach
)

const bufioSize = 16 << 10

// netServer has a goroutine for each connection.
type netServer struct {
	rung    rung
	proto   protocol
	readers sync.Pool
	writers sync.Pool
	frames  sync.Pool
	raws    sync.Pool

	running sync.WaitGroup
	mu      sync.Mutex
	conns   map[net.Conn]struct{} // guarded by mu; nil when closed
}

func startNet(r rung) starter {
	return func(ln net.Listener, p protocol) (*server.Served, error) {
		s := &netServer{rung: r, proto: p, conns: make(map[net.Conn]struct{})}
		s.readers.New = func() any { return bufio.NewReaderSize(nil, bufioSize) }
		s.writers.New = func() any { return bufio.NewWriterSize(nil, bufioSize) }
		s.frames.New = func() any { return new([]byte) }
		s.raws.New = func() any { return &rawBuffers{in: make([]byte, rawSize)} }
		s.running.Go(func() { s.accept(ln) })
		return &server.Served{Conns: s.len, Close: func() {
			_ = ln.Close()
			s.closeConns()
			s.running.Wait()
		}}, nil
	}
}

func (s *netServer) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *netServer) closeConns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}

func (s *netServer) accept(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.conns == nil {
			s.mu.Unlock()
			_ = c.Close()
			return
		}
		s.conns[c] = struct{}{}
		s.running.Go(func() { s.serve(c) })
		s.mu.Unlock()
	}
}

func (s *netServer) serve(c net.Conn) {
	// What ends a connection is the client's business: it checks all that it gets.
	switch s.rung {
	case unbuffered:
		_ = s.servePlain(c)
	case buffered:
		_ = s.serveBuffered(bufio.NewReaderSize(c, bufioSize), bufio.NewWriterSize(c, bufioSize))
	case raw:
		_ = s.serveRaw(c)
	case pooled:
		br, bw := s.readers.Get().(*bufio.Reader), s.writers.Get().(*bufio.Writer)
		br.Reset(c)
		bw.Reset(c)
		_ = s.serveBuffered(br, bw)
		br.Reset(nil)
		bw.Reset(nil)
		s.readers.Put(br)
		s.writers.Put(bw)
	}
	_ = c.Close()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

// frame reads the rest of a frame of n bytes into buf, which grows.
func (s *netServer) frame(r io.Reader, head *[4]byte, buf *[]byte) ([]byte, error) {
	n, err := s.proto.frameSize(head[:])
	if err != nil {
		return nil, err
	}
	if cap(*buf) < n {
		*buf = make([]byte, n)
	}
	f := (*buf)[:n]
	copy(f, head[:])
	_, err = io.ReadFull(r, f[4:])
	return f, err
}

func (s *netServer) servePlain(c net.Conn) error {
	var head [4]byte
	var ack [ackSize]byte
	var buf []byte
	for {
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return err
		}
		f, err := s.frame(c, &head, &buf)
		if err != nil {
			return err
		}
		if _, err := c.Write(s.proto.answer(f, &ack)); err != nil {
			return err
		}
	}
}

func (s *netServer) serveBuffered(br *bufio.Reader, bw *bufio.Writer) error {
	var head [4]byte
	var ack [ackSize]byte
	var own []byte
	for {
		if _, err := io.ReadFull(br, head[:]); err != nil {
			return err
		}
		buf := &own
		if s.rung == pooled {
			buf = s.frames.Get().(*[]byte)
		}
		f, err := s.frame(br, &head, buf)
		if err == nil {
			_, err = bw.Write(s.proto.answer(f, &ack))
		}
		if err == nil && br.Buffered() == 0 {
			err = bw.Flush()
		}
		if s.rung == pooled {
			s.frames.Put(buf)
		}
		if err != nil {
			return err
		}
	}
}
