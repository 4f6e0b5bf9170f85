package main

import (
	"context"
	"net"
	"sync"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/link"
	memorybroker "github.com/sluice-push/sluice/push/broker/memory"
	hublink "github.com/sluice-push/sluice/push/link"
	"github.com/sluice-push/sluice/push/link/wire"
)

// serveLink starts a peer at the hub.
func serveLink(s *linkSettings, ln net.Listener, a *acks) (linkServer, error) {
	switch s.peer {
	case grpcSingle, grpcBatched:
		return serveFeed(ln), nil
	case rawBytes:
		return serveRaw(ln, s.shape), nil
	case memoryAlone:
		_ = ln.Close()
		return newPublisher(s, a)
	default:
		return serveOurLink(ln), nil
	}
}

// connectLink connects a peer at the gateway. end ends that.
func connectLink(s *linkSettings, a *arrivals) (end func(), err error) {
	switch s.peer {
	case grpcSingle, grpcBatched:
		return followFeed(s, a)
	case rawBytes:
		return readRaw(s, a)
	default:
		return followOurLink(s, a)
	}
}

var linkNamespace = broker.Namespace{Name: "n", Mode: push.Table, Partitions: linkPartitions}

// prepared is a broker whose followers get what the feeder delivers.
type prepared struct {
	broker.Broker
	mu        sync.Mutex
	followers [linkPartitions]broker.Follower // guarded by mu
}

// Attach implements broker.Broker.
func (d *prepared) Attach(ctx context.Context, p broker.Partition, f broker.Follower) (broker.Attachment, error) {
	d.mu.Lock()
	d.followers[p.Index] = f
	d.mu.Unlock()
	return d.Broker.Attach(ctx, p, f)
}

// hubLink is push/link at the hub.
type hubLink struct {
	store  *prepared
	server *hublink.Server
	done   chan error
}

func serveOurLink(ln net.Listener) *hubLink {
	h := &hubLink{store: &prepared{Broker: memorybroker.New(nil)}, done: make(chan error, 1)}
	h.server = hublink.NewServer(h.store, nil)
	go func() { h.done <- h.server.Serve(ln) }()
	return h
}

func (h *hubLink) deliver(partition int, batch []broker.Message) error {
	h.store.mu.Lock()
	f := h.store.followers[partition]
	h.store.mu.Unlock()
	f.Deliver(batch)
	return nil
}

func (h *hubLink) close() {
	_ = h.server.Close()
	<-h.done
	_ = h.store.Close()
}

// followOurLink follows all partitions over push/broker/link, with its usual two connections.
func followOurLink(s *linkSettings, a *arrivals) (end func(), err error) {
	gateway, err := link.New(&link.Options{Placement: link.Fixed{s.addr}})
	if err != nil {
		return nil, err
	}
	end = func() { _ = gateway.Close() }
	ctx := context.Background()
	err = gateway.Open(ctx, linkNamespace)
	for p := range a.partitions {
		var at broker.Attachment
		if err == nil {
			at, err = gateway.Attach(ctx, broker.Partition{Namespace: linkNamespace.Name, Index: p}, &a.partitions[p])
		}
		if err == nil {
			err = at.Want(ctx, linkChannels()[p])
		}
	}
	if err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// publisher publishes to the memory broker, and follows it in the same process.
type publisher struct {
	broker.Broker
	arrivals *arrivals
}

func newPublisher(s *linkSettings, acks *acks) (*publisher, error) {
	p := &publisher{Broker: memorybroker.New(nil)}
	p.arrivals = newArrivals(s.shape.every, func(all int64) error {
		acks.add(all)
		return nil
	})
	ctx := context.Background()
	err := p.Open(ctx, linkNamespace)
	for i := range p.arrivals.partitions {
		if err == nil {
			_, err = p.Attach(ctx, broker.Partition{Namespace: linkNamespace.Name, Index: i}, &p.arrivals.partitions[i])
		}
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *publisher) deliver(_ int, batch []broker.Message) error {
	for i := range batch {
		if _, err := p.Publish(context.Background(), batch[i].Channel, batch[i].Publication, broker.PublishOptions{}); err != nil {
			return err
		}
	}
	_, err := p.arrivals.counts()
	return err
}

func (p *publisher) close() { _ = p.Close() }

const (
	rawConns = 2   // as many as a gateway has to a hub
	rawAtOne = 256 // publications in a write
)

// rawServer writes bytes.
type rawServer struct {
	accepted chan net.Conn
	conns    []net.Conn
	done     chan struct{}
	waiting  int // publications that wait for the next write
	atOnce   int
	bytes    []byte // of so many publications
	next     int    // connection
	ln       net.Listener
}

// rawBytesOf returns the bytes of a publication on a link.
func rawBytesOf() []byte {
	return wire.AppendMessage(nil, &broker.Message{
		Channel: linkChannels()[0], Publication: push.Publication{Offset: 1 << 40, Time: 1 << 40, Key: "row00", Data: make([]byte, linkSize)},
	})
}

func serveRaw(ln net.Listener, shape linkShape) *rawServer {
	r := &rawServer{accepted: make(chan net.Conn, rawConns), done: make(chan struct{}), atOnce: min(rawAtOne, shape.every), ln: ln}
	for range r.atOnce {
		r.bytes = append(r.bytes, rawBytesOf()...)
	}
	go func() {
		defer close(r.done)
		defer close(r.accepted)
		for range rawConns {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			r.accepted <- conn
		}
	}()
	return r
}

func (r *rawServer) deliver(_ int, batch []broker.Message) error {
	for r.waiting += len(batch); r.waiting >= r.atOnce; r.waiting -= r.atOnce {
		for len(r.conns) < rawConns {
			conn, ok := <-r.accepted
			if !ok {
				return net.ErrClosed
			}
			r.conns = append(r.conns, conn)
		}
		r.next = (r.next + 1) % rawConns
		if _, err := r.conns[r.next].Write(r.bytes); err != nil {
			return err
		}
	}
	return nil
}

func (r *rawServer) close() {
	_ = r.ln.Close()
	<-r.done
	for conn := range r.accepted {
		r.conns = append(r.conns, conn)
	}
	for _, conn := range r.conns {
		_ = conn.Close()
	}
}

// readRaw reads bytes, and counts how many publications that would be. They count as if each partition had a quarter.
func readRaw(s *linkSettings, a *arrivals) (end func(), err error) {
	var conns []net.Conn
	var reading sync.WaitGroup
	end = func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
		reading.Wait()
	}
	for range rawConns {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			end()
			return nil, err
		}
		conns = append(conns, conn)
	}
	var mu sync.Mutex
	bytes, size := 0, len(rawBytesOf())
	for _, conn := range conns {
		reading.Go(func() {
			buffer := make([]byte, 64<<10)
			for {
				n, err := conn.Read(buffer)
				if err != nil {
					return
				}
				mu.Lock()
				before := bytes / size
				bytes += n
				a.spread(uint64(before), uint64(bytes/size))
				mu.Unlock()
			}
		})
	}
	return end, nil
}

// spread counts publications from one number up to another, of which the partitions have one each in turn.
func (a *arrivals) spread(before, now uint64) {
	for p := range uint64(linkPartitions) {
		of := func(all uint64) uint64 { return (all + linkPartitions - 1 - p) / linkPartitions }
		if n := of(now) - of(before); n > 0 {
			a.partitions[p].came(of(now), int(n)) //nolint:gosec // a read has few
		}
	}
}
