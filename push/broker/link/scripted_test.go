package link_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/link"
	"github.com/sluice-push/sluice/push/link/wire"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/frame"
)

// scripted is a hub whose answers a test chooses. The functions are called concurrently; one that is nil answers with nothing.
type scripted struct {
	open     func() error
	follow   func(n int, send func(body []byte)) // n counts the Follow streams from 1; the stream lasts until the caller ends it
	interest func(in *wire.InterestRequest) (upTo uint64, err error)
	load     func(send func([]byte) error) error
	publish  func(ctx context.Context) error
	putLease func(ctx context.Context) error

	server  *rpc.Server
	address string
	streams atomic.Int64
}

// begin serves the hub until the test ends.
func (h *scripted) begin(t *testing.T) {
	t.Helper()
	h.server = rpc.NewServer(&rpc.Options{Frame: &frame.Options{MaxFrame: wire.MaxFrame}})
	h.server.Handle(wire.Hello, rpc.MethodOf(rpc.JSON, func(context.Context, *wire.HelloRequest) (*wire.HelloReply, error) {
		return &wire.HelloReply{Version: wire.Version}, nil
	}))
	h.server.Handle(wire.Open, rpc.MethodOf(rpc.JSON, func(context.Context, *wire.Namespace) (*struct{}, error) {
		if h.open == nil {
			return &struct{}{}, nil
		}
		return &struct{}{}, h.open()
	}))
	call := func(f *func(context.Context) error) rpc.Func {
		return func(ctx context.Context, _ *rpc.Call, dst []byte) ([]byte, error) {
			if *f == nil {
				return wire.AppendPosition(dst, push.Position{Epoch: "e", Offset: 1}), nil
			}
			return dst, (*f)(ctx)
		}
	}
	for name, f := range map[string]rpc.Func{
		wire.Publish: call(&h.publish), wire.PutLease: call(&h.putLease),
		wire.Interest: func(_ context.Context, c *rpc.Call, dst []byte) ([]byte, error) {
			var in wire.InterestRequest
			if err := in.Parse(c.Body()); err != nil {
				return nil, err
			}
			upTo, err := h.interest(&in)
			return wire.AppendOffset(dst, upTo), err
		},
	} {
		h.server.Handle(name, rpc.Method{Protocol: rpc.Raw.Protocol(), Func: f})
	}
	h.server.Handle(wire.Load, rpc.Method{Protocol: rpc.Raw.Protocol(), Stream: func(_ context.Context, _ *rpc.Call, send func([]byte) error) error {
		return h.load(send)
	}})
	h.server.Handle(wire.Follow, rpc.Method{Protocol: rpc.Raw.Protocol(), Stream: func(ctx context.Context, _ *rpc.Call, send func([]byte) error) error {
		h.follow(int(h.streams.Add(1)), func(body []byte) { _ = send(body) })
		<-ctx.Done()
		return ctx.Err()
	}})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.address = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- h.server.Serve(ln) }()
	t.Cleanup(func() {
		_ = h.server.Close()
		_ = testwait.Receive(t, served)
	})
}

func start(epoch string, offset uint64) []byte {
	return wire.AppendStart(nil, wire.Start, push.Position{Epoch: epoch, Offset: offset})
}

// batch is a Batch with messages to n:a at the offsets, up to the last one.
func batch(offsets ...uint64) []byte {
	body := wire.AppendBatch(nil, offsets[len(offsets)-1])
	for _, at := range offsets {
		body = wire.AppendMessage(body, &broker.Message{Channel: "n:a", Publication: push.Publication{Offset: at, Key: "row"}})
	}
	return body
}

// at answers Interest with an offset.
func at(offset uint64) func(*wire.InterestRequest) (uint64, error) {
	return func(*wire.InterestRequest) (uint64, error) { return offset, nil }
}

// A hub that is behind the one before tells of gaps that the follower knows of already, or that are not its own.
func TestGapOfTheHubBehind(t *testing.T) {
	h := &scripted{interest: at(10)}
	h.follow = func(_ int, send func([]byte)) {
		send(start("e", 10))
		send(wire.AppendGap(nil, "n:a", 9))
		send(wire.AppendGap(nil, "", 10))
		send(batch(12))
	}
	h.begin(t)
	b := join(t, link.Options{}, h.address)
	closes(t, b)
	f := &follower{}
	attach(t, b, f)
	f.reaches(t, 12)
	if len(f.gaps) > 0 {
		t.Errorf("it was told of the gaps %v, and had everything up to 10", f.gaps)
	}
}

// The partition begins a new epoch after a stream has begun, and before the gateway has told what it wants. So the hub answers with an offset of the new
// epoch, and what was published before that is not in the stream. The follower is then told of a start after which it gets everything.
func TestResetBeforeInterest(t *testing.T) {
	h := &scripted{interest: at(3)}
	h.follow = func(n int, send func([]byte)) {
		if n > 1 {
			send(start("new", 3))
			send(batch(4, 5))
			return
		}
		send(start("old", 100))
		send(wire.AppendStart(nil, wire.Reset, push.Position{Epoch: "new"}))
		send(batch(4))
	}
	h.begin(t)
	b := join(t, link.Options{}, h.address)
	closes(t, b)
	f := &resets{}
	attach(t, b, f)
	f.reaches(t, 5)
	if len(f.at) != 1 || f.at[0] != (push.Position{Epoch: "new", Offset: 3}) {
		t.Errorf("it was reset to %v", f.at)
	}
	if got, _ := f.offsets(); len(got) != 2 || got[0] != 4 {
		t.Errorf("it got %v after that", got)
	}
}

// resets is a follower that keeps the positions of resets.
type resets struct {
	follower

	at []push.Position
}

func (r *resets) Reset(at push.Position) {
	r.follower.Reset(at)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = append(r.at, at)
}

// A catch-up leaves out versions of rows, also of those whose newest version comes with the stream. The follower must not compare such a version with the
// one that it has, because the tags may have changed meanwhile, and changed back.
func TestRetagAfterCatchUp(t *testing.T) {
	h := &scripted{interest: at(10)}
	h.follow = func(_ int, send func([]byte)) {
		send(start("e", 10))
		send(wire.AppendSkipped(nil, 20))
		send(batch(25, 30))
	}
	h.load = func(send func([]byte) error) error {
		row := broker.Message{Channel: "n:a", Publication: push.Publication{Offset: 25, Key: "row"}}
		_ = send(wire.AppendMessage(wire.AppendLoad(nil), &row))
		return send(wire.AppendHistory(nil, broker.History{Epoch: "e", Head: 27}))
	}
	h.begin(t)
	b := join(t, link.Options{}, h.address)
	closes(t, b)
	f := &follower{hold: make(chan struct{})}
	attach(t, b, f, "n:a")
	close(f.hold)
	f.reaches(t, 30)
	if f.messages[0].Offset != 25 || f.messages[0].Retag != 25 || f.messages[1].Retag != 0 {
		t.Errorf("it got %+v", f.messages)
	}
}

// row is a version of a row of n:a with the offset at which its tags changed last.
func row(offset, retag uint64) *broker.Message {
	return &broker.Message{Channel: "n:a", Retag: retag, Publication: push.Publication{Offset: offset, Key: "row"}}
}

// loaded answers a load with a row, and what is kept up to a head.
func loaded(m *broker.Message, head uint64) func(send func([]byte) error) error {
	return func(send func([]byte) error) error {
		_ = send(wire.AppendMessage(wire.AppendLoad(nil), m))
		return send(wire.AppendHistory(nil, broker.History{Epoch: "e", Head: head}))
	}
}

// In a catch-up up to 20, a row is left out whose tags have changed at 15 and whose newest version is at 25. Clients get everything up to 20 as if that were all.
// The row's next version says that its tags have changed with it, however it comes: with the stream, with the catch-up of the next stream, or by a load of
// the channel. When the follower has all that was left out, the offsets of the hub hold again.
func TestTagsThatAreLeftOut(t *testing.T) {
	for name, comes := range map[string]func(h *scripted, send func([]byte)){
		"with the stream":   func(_ *scripted, send func([]byte)) { send(batch(25)) },
		"with another load": func(_ *scripted, send func([]byte)) { send(wire.AppendSkipped(nil, 30)) },
	} {
		t.Run(name, func(t *testing.T) {
			h := &scripted{interest: at(10), load: loaded(row(25, 15), 27)}
			next, last := make(chan struct{}), make(chan struct{})
			h.follow = func(_ int, send func([]byte)) {
				send(start("e", 10))
				send(wire.AppendSkipped(nil, 20))
				<-next
				comes(h, send)
				<-last
				send(batch(40))
			}
			h.begin(t)
			b := join(t, link.Options{}, h.address)
			closes(t, b)
			f := &follower{}
			attach(t, b, f, "n:a")
			f.reaches(t, 20)
			retagOf := func() (retag uint64) {
				_, err := b.Load(testwait.Context(t), "n:a", broker.LoadOptions{}, func(m broker.Message) error { retag = m.Retag; return nil })
				if err != nil {
					t.Error(err)
				}
				return retag
			}
			if got := retagOf(); got != 25 {
				t.Errorf("while the row is left out, a load says that its tags changed at %d", got)
			}
			close(next)
			testwait.True(t, "the row has come", func() bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				return len(f.messages) == 1
			})
			if got := f.messages[0].Retag; got != 25 {
				t.Errorf("its tags changed at %d", got)
			}
			close(last)
			f.reaches(t, 40)
			if got := retagOf(); got != 15 {
				t.Errorf("afterwards, a load says that its tags changed at %d", got)
			}
		})
	}
}

// What was left out on one stream is known on the next one, from another hub that is behind: there is no catch-up, and the row comes without the offset of its
// tags.
func TestTagsThatAreLeftOutBefore(t *testing.T) {
	h := &scripted{interest: at(10), load: loaded(row(25, 15), 27)}
	next := make(chan struct{})
	h.follow = func(n int, send func([]byte)) {
		send(start("e", 10))
		if n == 1 {
			send(wire.AppendSkipped(nil, 20))
			<-next
			send(wire.AppendStart(nil, wire.Start, push.Position{})) // which ends the stream: it has begun already
			return
		}
		send(batch(25, 30))
	}
	h.begin(t)
	b := join(t, link.Options{}, h.address)
	closes(t, b)
	f := &follower{}
	attach(t, b, f, "n:a")
	f.reaches(t, 20)
	close(next)
	f.reaches(t, 30)
	if f.messages[0].Retag != 25 || f.messages[1].Retag != 0 {
		t.Errorf("it got %+v", f.messages)
	}
}

// A hub that does not know a stream any more, or has too much to do, or is about to end, does not know what is wanted. Want then waits for another stream.
func TestWantAtTheEndOfAStream(t *testing.T) {
	for name, refusal := range map[string]error{
		"unknown stream": rpc.Errorf(wire.CodeNoStream, "there is no such stream"),
		"hub closes":     context.Canceled,
	} {
		t.Run(name, func(t *testing.T) {
			h := &scripted{follow: func(_ int, send func([]byte)) { send(start("e", 10)) }}
			h.interest = func(in *wire.InterestRequest) (uint64, error) {
				if h.streams.Load() == 1 && len(in.Want) > 0 {
					return 0, refusal
				}
				return 10, nil
			}
			h.begin(t)
			b := join(t, link.Options{}, h.address)
			closes(t, b)
			attach(t, b, &follower{}, "n:a")
			if n := h.streams.Load(); n != 2 {
				t.Errorf("there were %d streams", n)
			}
		})
	}
}

// If a hub refuses channels, all that wait for them learn of it, however many there are, and others can be wanted after that.
func TestWantRefused(t *testing.T) {
	h := &scripted{follow: func(_ int, send func([]byte)) { send(start("e", 10)) }}
	asked := make(chan struct{})
	h.interest = func(in *wire.InterestRequest) (uint64, error) {
		if len(in.Want) == 0 || in.Want[0] == "n:fine" {
			return 10, nil
		}
		<-asked
		return 0, broker.ErrUnknownNamespace
	}
	h.begin(t)
	b := join(t, link.Options{}, h.address)
	closes(t, b)
	a := attach(t, b, &follower{})
	const n = 2500
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- a.Want(testwait.Context(t), fmt.Sprint("n:", i)) }()
	}
	close(asked)
	for range n {
		if err := testwait.Receive(t, errs); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	if err := a.Want(testwait.Context(t), "n:fine"); err != nil {
		t.Error(err)
	}
}

// The placement changes while a stream is being opened at the hub that was the best.
func TestMovedWhileOpening(t *testing.T) {
	p := &movable{changed: make(chan struct{})}
	second := &scripted{interest: at(10), follow: func(_ int, send func([]byte)) { send(start("e", 10)) }}
	second.begin(t)
	first := &scripted{interest: at(10)}
	first.follow = func(_ int, send func([]byte)) {
		before := p.asked()
		p.set(second.address)
		testwait.True(t, "the gateway has seen the change", func() bool { return p.asked() > before })
		send(start("e", 10))
	}
	first.begin(t)
	p.set(first.address)
	b, err := link.New(&link.Options{Placement: p})
	if err != nil {
		t.Fatal(err)
	}
	closes(t, b)
	attach(t, b, &follower{})
	testwait.True(t, "it goes to the second hub", func() bool { return second.streams.Load() > 0 })
}

// If the context of Attach ends when the stream has begun, Attach does not wait for a follower that waits for it.
func TestAttachGivesUp(t *testing.T) {
	h := &scripted{interest: at(10)}
	h.follow = func(_ int, send func([]byte)) {
		send(start("e", 10))
		send(batch(12))
	}
	h.begin(t)
	b := join(t, link.Options{}, h.address)
	closes(t, b)
	open(t, b)
	for range 20 {
		f := &waiting{entered: make(chan struct{}), leave: make(chan struct{})}
		attached := make(chan struct{})
		var a broker.Attachment
		var err error
		go func() {
			defer close(attached)
			a, err = b.Attach(&late{testwait.Context(t), f.entered}, broker.Partition{Namespace: "n"}, f)
		}()
		testwait.Receive(t, attached)
		close(f.leave)
		if err == nil {
			a.Detach()
		}
	}
}

// late is a context that is done when a channel is closed. A caller of Done waits until then.
type late struct {
	context.Context

	done chan struct{}
}

func (l *late) Done() <-chan struct{} {
	<-l.done
	return l.done
}

func (l *late) Err() error {
	select {
	case <-l.done:
		return context.Canceled
	default:
		return nil
	}
}

// waiting is a follower whose Deliver says that it has begun, and waits.
type waiting struct {
	follower

	entered, leave chan struct{}
}

func (w *waiting) Deliver([]broker.Message) {
	close(w.entered)
	<-w.leave
}
