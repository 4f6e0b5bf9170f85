package main

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/sluice-push/sluice/bench/push/feed"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// feedMost is how many publications go into a batch.
const feedMost = 512

// feedServer is a gRPC server of publications. It handles both forms.
type feedServer struct {
	feed.UnimplementedFeedServer
	server *grpc.Server
	done   chan error
	queues [linkPartitions]feedQueue
}

// feedQueue holds publications that wait for a stream.
type feedQueue struct {
	wake    chan struct{} // has an element if there may be some
	mu      sync.Mutex
	waiting []broker.Message // guarded by mu
}

func serveFeed(ln net.Listener) *feedServer {
	s := &feedServer{server: grpc.NewServer(), done: make(chan error, 1)}
	for p := range s.queues {
		s.queues[p].wake = make(chan struct{}, 1)
	}
	feed.RegisterFeedServer(s.server, s)
	go func() { s.done <- s.server.Serve(ln) }()
	return s
}

func (s *feedServer) deliver(partition int, batch []broker.Message) error {
	q := &s.queues[partition]
	q.mu.Lock()
	q.waiting = append(q.waiting, batch...)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return nil
}

func (s *feedServer) close() {
	s.server.Stop()
	<-s.done
}

// each calls send with all publications of a partition that wait, again and again, until it fails or ctx is done.
func (s *feedServer) each(ctx context.Context, in *feed.FollowRequest, send func([]broker.Message) error) error {
	if in.GetPartition() >= linkPartitions {
		return status.Errorf(codes.InvalidArgument, "there is no partition %d", in.GetPartition())
	}
	q := &s.queues[in.GetPartition()]
	var batch []broker.Message
	for {
		select {
		case <-q.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		q.mu.Lock()
		batch, q.waiting = q.waiting, batch[:0]
		q.mu.Unlock()
		if err := send(batch); err != nil {
			return err
		}
		clear(batch)
	}
}

// Follow implements feed.FeedServer.
func (s *feedServer) Follow(in *feed.FollowRequest, stream grpc.ServerStreamingServer[feed.Publication]) error {
	return s.each(stream.Context(), in, func(batch []broker.Message) error {
		for i := range batch {
			if err := stream.Send(publicationOf(&batch[i])); err != nil {
				return err
			}
		}
		return nil
	})
}

// FollowBatches implements feed.FeedServer.
func (s *feedServer) FollowBatches(in *feed.FollowRequest, stream grpc.ServerStreamingServer[feed.Batch]) error {
	return s.each(stream.Context(), in, func(batch []broker.Message) error {
		for len(batch) > 0 {
			some := batch[:min(len(batch), feedMost)]
			out := &feed.Batch{Publications: make([]*feed.Publication, len(some))}
			for i := range some {
				out.Publications[i] = publicationOf(&some[i])
			}
			if err := stream.Send(out); err != nil {
				return err
			}
			batch = batch[len(some):]
		}
		return nil
	})
}

func publicationOf(m *broker.Message) *feed.Publication {
	return &feed.Publication{
		Channel: m.Channel, Offset: m.Offset, Time: m.Time, Op: uint32(m.Op), Key: m.Key, Retag: m.Retag, Tags: m.Tags, Data: m.Data,
	}
}

func messageOf(p *feed.Publication) broker.Message {
	return broker.Message{
		Channel: p.GetChannel(), Retag: p.GetRetag(),
		Publication: push.Publication{
			Offset: p.GetOffset(), Time: p.GetTime(), Op: push.Op(p.GetOp()), Key: p.GetKey(), Tags: p.GetTags(), Data: p.GetData(), //nolint:gosec // 0 to 2
		},
	}
}

// followFeed follows all partitions over gRPC, with a connection and a stream for each.
func followFeed(s *linkSettings, a *arrivals) (end func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	var conns []*grpc.ClientConn
	var following sync.WaitGroup
	end = func() {
		cancel()
		following.Wait()
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
	for p := range a.partitions {
		conn, err := grpc.NewClient(s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			end()
			return nil, err
		}
		conns = append(conns, conn)
		in := &feed.FollowRequest{Partition: uint32(p)} //nolint:gosec // there are few
		follow := followSingle
		if s.peer == grpcBatched {
			follow = followBatches
		}
		following.Go(func() {
			if err := follow(ctx, feed.NewFeedClient(conn), in, &a.partitions[p]); ctx.Err() == nil {
				a.fail(err)
			}
		})
	}
	return end, nil
}

func followSingle(ctx context.Context, c feed.FeedClient, in *feed.FollowRequest, to broker.Follower) error {
	stream, err := c.Follow(ctx, in)
	if err != nil {
		return err
	}
	var one [1]broker.Message
	for {
		p, err := stream.Recv()
		if err != nil {
			return err
		}
		one[0] = messageOf(p)
		to.Deliver(one[:])
	}
}

func followBatches(ctx context.Context, c feed.FeedClient, in *feed.FollowRequest, to broker.Follower) error {
	stream, err := c.FollowBatches(ctx, in)
	if err != nil {
		return err
	}
	var batch []broker.Message
	for {
		b, err := stream.Recv()
		if err != nil {
			return err
		}
		batch = batch[:0]
		for _, p := range b.GetPublications() {
			batch = append(batch, messageOf(p))
		}
		to.Deliver(batch)
	}
}
