package main

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/cloudwego/netpoll"

	"github.com/sluice-push/sluice/bench/internal/server"
)

// startNetpoll starts a server of netpoll, as its guide recommends: bytes are looked at where they were received, answers are
// made where they are sent from, and one Flush sends those to all frames that are here. Everything else is its default.
func startNetpoll(ln net.Listener, p protocol) (*server.Served, error) {
	var conns atomic.Int64
	loop, err := netpoll.NewEventLoop(
		func(_ context.Context, c netpoll.Connection) error {
			err := p.serveNetpoll(c)
			if err != nil {
				_ = c.Close()
			}
			return err
		},
		netpoll.WithOnPrepare(func(netpoll.Connection) context.Context {
			conns.Add(1)
			return context.Background()
		}),
		netpoll.WithOnDisconnect(func(context.Context, netpoll.Connection) { conns.Add(-1) }),
	)
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- loop.Serve(ln) }()
	return &server.Served{Conns: func() int { return int(conns.Load()) }, Close: func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = loop.Shutdown(ctx)
		<-done
	}}, nil
}

// serveNetpoll answers the frames that are here.
func (p protocol) serveNetpoll(c netpoll.Connection) error {
	r, w := c.Reader(), c.Writer()
	for r.Len() > 0 {
		head, err := r.Peek(4)
		if err != nil {
			return err
		}
		n, err := p.frameSize(head)
		if err != nil {
			return err
		}
		if r.Len() < n && w.MallocLen() > 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
		frame, err := r.Next(n)
		if err != nil {
			return err
		}
		if err := p.answerNetpoll(w, frame); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return r.Release() // not before: what was received may have been sent from where it was
}

func (p protocol) answerNetpoll(w netpoll.Writer, frame []byte) error {
	if p.echo {
		_, err := w.WriteBinary(frame)
		return err
	}
	ack, err := w.Malloc(ackSize)
	if err != nil {
		return err
	}
	p.answer(frame, (*[ackSize]byte)(ack))
	return nil
}
