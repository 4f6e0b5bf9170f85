package rawstream

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// chunk is what the client has to take within the time-out while there is more.
const chunk = 16 << 10

// Sender sends the messages of one call. Send is called by one goroutine at a time; the other methods may be called concurrently.
type Sender struct {
	stream  grpc.ServerStream
	cancel  context.CancelFunc
	timeout time.Duration
	batches *Batches

	flight  atomic.Int64 // bytes that grpc-go has taken, and neither written nor dropped
	late    atomic.Bool
	timer   *time.Timer
	message outgoing
}

// Init prepares a zero Sender. cancel has to end the context of the call, so that a send that waits fails; it is called if the client takes nothing
// for the time-out. A time-out of 0 is none.
func (s *Sender) Init(stream grpc.ServerStream, b *Batches, timeout time.Duration, cancel context.CancelFunc) {
	s.stream, s.cancel, s.timeout, s.batches = stream, cancel, timeout, b
}

// Late reports whether the client took nothing for the time-out.
func (s *Sender) Late() bool { return s.late.Load() }

// InFlight returns how many bytes grpc-go has taken of the call, and neither written nor dropped.
func (s *Sender) InFlight() int { return int(s.flight.Load()) }

// End is called when the call has ended. If something of it is still in flight after some time, the connection is closed: grpc-go would keep it.
func (s *Sender) End(conn io.Closer, after time.Duration) {
	if s.flight.Load() > 0 {
		time.AfterFunc(after, func() { // not stopped: it ends by itself, and closing twice is harmless
			if s.flight.Load() > 0 {
				_ = conn.Close()
			}
		})
	}
}

// Send sends a frame of messages with their lengths before them. The frame becomes the sender's; spare is memory for the next one.
func (s *Sender) Send(frame []byte) (spare []byte, err error) {
	if len(frame) == 0 {
		return frame, nil
	}
	all, spare := s.batches.of(frame, &s.flight)
	defer all.Free()
	defer s.stopTimer()
	data := all.ReadOnlyData()
	for rest, sent := data, chunk; len(rest) > 0; {
		message, after, err := protobuf.Next(rest)
		if err != nil {
			return nil, err
		}
		rest = after
		if sent >= chunk {
			s.startTimer()
			sent = 0
		}
		sent += len(message)
		s.message.buffer = nil
		if len(message) > 0 {
			end := len(data) - len(rest)
			s.message.buffer = all.Slice(end-len(message), end)
		}
		if err := s.stream.SendMsg(&s.message); err != nil {
			return nil, err
		}
	}
	if s.late.Load() {
		return nil, context.DeadlineExceeded
	}
	return spare, nil
}

// startTimer begins the time in which the client has to take something.
func (s *Sender) startTimer() {
	switch {
	case s.timeout <= 0:
	case s.timer == nil:
		s.timer = time.AfterFunc(s.timeout, func() {
			s.late.Store(true)
			s.cancel()
		})
	default:
		s.timer.Reset(s.timeout)
	}
}

func (s *Sender) stopTimer() {
	if s.timer != nil {
		s.timer.Stop()
	}
}
