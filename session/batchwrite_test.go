package session_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// dialMany returns n clients of one server, and their sessions in the same order.
func dialMany(t *testing.T, tr transport, n int, o *session.Options) (peers []net.Conn, sessions []*session.Session) {
	t.Helper()
	f := newFixture(t, tr, line, session.Handler{}, o)
	peers = append(peers, f.client)
	for len(peers) < n {
		peers = append(peers, f.dial())
	}
	await(t, func() bool { return f.srv.Len() == n })
	for len(sessions) < n {
		sessions = slices.Collect(f.srv.Sessions())
		slices.SortFunc(sessions, func(a, b *session.Session) int { return int(a.ID()) - int(b.ID()) })
	}
	return peers, sessions
}

// Several goroutines send to all sessions at the same time, and one goroutine for each session sends to it alone, through small buffers and
// queues. All messages arrive, and the calls of all encoders come in the order of the bytes.
func TestSendAllInOrder(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		const count, senders, each = 40, 3, 12
		o := smallBuffers()
		o.QueueBytes = 40_000
		peers, sessions := dialMany(t, tr, count, o)
		encoders := make([]*encoderSet, count)
		for i := range encoders {
			encoders[i] = newEncoderSet()
		}
		var all sync.WaitGroup
		for sender := range senders {
			all.Go(func() {
				for round := range each {
					msg := bytes.Repeat([]byte{'x'}, []int{1, 50, 3000, 12_000, 20_000}[(round+sender)%5])
					items := make([]session.SendItem, count)
					for i, s := range sessions {
						items[i] = session.SendItem{Session: s, As: encoders[i].text, Msg: msg}
						if (i+round)%2 == 0 {
							items[i].As = encoders[i].binary
						}
					}
					session.SendAll(items)
					for i := range items {
						if items[i].Err != nil {
							t.Error(items[i].Err)
						}
					}
					clear(msg)
				}
			})
		}
		all.Go(func() {
			for range each {
				for i, s := range sessions {
					if err := s.SendAs(encoders[i].text, []byte("alone")); err != nil {
						t.Error(err)
					}
				}
			}
		})
		for _, peer := range peers {
			all.Go(func() {
				alone := 0
				for want := range uint64((senders + 1) * each) {
					_, number, msg := readSent(t, peer)
					if number != want {
						t.Errorf("message %d has number %d", want, number)
						return
					}
					if msg == "alone" {
						alone++
					} else if strings.Trim(msg, "x") != "" {
						t.Errorf("message %d of %d bytes is not as it was sent", number, len(msg))
					}
				}
				if alone != each {
					t.Errorf("%d messages came that were sent alone", alone)
				}
			})
		}
		testwait.Return(t, all.Wait)
	})
}

// bareFrame is an encoder whose messages are frames already. If panics is set, it panics.
type bareFrame struct{ panics any }

func (e bareFrame) AppendEncode(dst, msg []byte) ([]byte, error) {
	dst, err := e.AppendHeader(dst, msg)
	return append(dst, msg...), err
}

func (e bareFrame) AppendHeader(dst, _ []byte) ([]byte, error) {
	if e.panics != nil {
		panic(e.panics)
	}
	return dst, nil
}

// Each item has an error of its own: of its codec, or of a session that has ended. The other messages arrive. An empty frame is no error.
func TestSendAllErrors(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		peers, sessions := dialMany(t, tr, 5, nil)
		sessions[2].Abort(errors.New("enough"))
		failing := newEncoderSet()
		failing.text.fail = errors.New("cannot be said")
		items := []session.SendItem{
			{Session: sessions[0], Msg: []byte("codec")},
			{Session: sessions[1], As: failing.text, Msg: []byte("x")},
			{Session: sessions[2], Msg: []byte("x")},
			{Session: sessions[3], As: bareFrame{}, Msg: []byte("frame\n")},
			{Session: sessions[4], As: bareFrame{}},
		}
		session.SendAll(nil)
		session.SendAll(items)
		for i, want := range []error{nil, failing.text.fail, session.ErrClosed, nil, nil} {
			if !errors.Is(items[i].Err, want) {
				t.Errorf("item %d: %v, want %v", i, items[i].Err, want)
			}
		}
		items[1].As, items[4].Msg = nil, []byte("last\n")
		session.SendAll(items)
		for i, want := range map[int]string{0: "codec\ncodec\n", 1: "x\n", 3: "frame\nframe\n", 4: "last\n"} {
			expect(t, peers[i], want)
		}
	})
}

// If an encoder panics, earlier messages of the batch are sent, and all sessions go on.
func TestSendAllPanic(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		peers, sessions := dialMany(t, tr, 3, nil)
		send := func(e bareFrame) (panicked any) {
			defer func() { panicked = recover() }()
			session.SendAll([]session.SendItem{
				{Session: sessions[0], As: bareFrame{}, Msg: []byte("one\n")},
				{Session: sessions[1], As: e, Msg: []byte("two\n")},
				{Session: sessions[2], As: bareFrame{}, Msg: []byte("three\n")},
			})
			return nil
		}
		if got := send(bareFrame{panics: "oops"}); got != "oops" {
			t.Fatalf("panicked with %v", got)
		}
		if got := send(bareFrame{}); got != nil {
			t.Fatalf("panicked with %v", got)
		}
		expect(t, peers[0], "one\none\n")
		expect(t, peers[1], "two\n")
		expect(t, peers[2], "three\n")
	})
}

// A session is closed during a batched write. Its end waits for the batch, and no Writer stays in the Writing state.
func TestSendAllAndClose(t *testing.T) {
	overSome(t, direct, func(t *testing.T, tr transport) {
		const count = 30
		peers, sessions := dialMany(t, tr, count, smallBuffers())
		msg := bytes.Repeat([]byte("y"), 4000)
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				items := make([]session.SendItem, count)
				for over := false; !over; {
					over = true
					for i, s := range sessions {
						items[i] = session.SendItem{Session: s, As: bareFrame{}, Msg: msg}
					}
					session.SendAll(items)
					for i := range items {
						err := items[i].Err
						over = over && errors.Is(err, session.ErrClosed)
						if err != nil && !errors.Is(err, session.ErrClosed) && !errors.Is(err, session.ErrQueueFull) {
							t.Error(err)
						}
					}
				}
			})
		}
		for i := range count {
			all.Go(func() {
				_, _ = io.CopyN(io.Discard, peers[i], int64(10_000*i))
				if i%2 == 0 {
					_ = peers[i].Close()
				} else {
					sessions[i].Close()
				}
			})
		}
		testwait.Return(t, all.Wait)
	})
}

// A batched write takes the same frames as TryWrite. If a session has something waiting, none is taken, and Writable follows. The rest of a
// partly taken frame arrives. A session that occurs twice is offered both frames.
func TestTryWriteAll(t *testing.T) {
	overSome(t, direct, func(t *testing.T, tr transport) {
		const count = 70 // more than a batch
		writable := make(chan *session.Session, 3*count)
		var opened atomic.Int32 // before Open a session over TLS takes nothing
		f := newFixture(t, tr, line, session.Handler{
			Open:     func(*session.Session) error { opened.Add(1); return nil },
			Writable: func(s *session.Session) { writable <- s },
		}, smallBuffers())
		peers := []net.Conn{f.client}
		for len(peers) < count {
			peers = append(peers, f.dial())
		}
		await(t, func() bool { return opened.Load() == count })
		sessions := slices.SortedFunc(f.srv.Sessions(), func(a, b *session.Session) int { return int(a.ID()) - int(b.ID()) })
		sessions[5].Abort(errors.New("enough"))
		const full, late = 2, 3
		flood := bytes.Repeat([]byte{'f'}, 1<<20) // more than the socket takes
		if taken, err := sessions[full].TryWrite([][]byte{flood}); taken != 1 || err != nil {
			t.Fatalf("took %d, %v", taken, err)
		}
		offers := make([]session.Offer, 0, count+1)
		for i, s := range sessions {
			frame := []byte("one\n")
			if i == late {
				frame = flood
			}
			offers = append(offers, session.Offer{Session: s, Frame: frame, Taken: i%2 == 0})
		}
		offers = append(offers, session.Offer{Session: sessions[count-1], Frame: []byte("two\n")})
		session.TryWriteAll(nil)
		session.TryWriteAll(offers)
		for i := range offers {
			if want := i != full && i != 5; offers[i].Taken != want {
				t.Errorf("frame %d was taken: %t", i, offers[i].Taken)
			}
		}
		for i, peer := range peers {
			switch i {
			case 5:
			case full, late:
				if _, err := io.CopyN(io.Discard, peer, int64(len(flood))); err != nil {
					t.Error(err)
				}
			case count - 1:
				expect(t, peer, "one\ntwo\n")
			default:
				expect(t, peer, "one\n")
			}
		}
		if s := receive(t, writable); s != sessions[full] {
			t.Errorf("session %d can take more, want that which refused", s.ID())
		}
		offers = offers[:full+1]
		session.TryWriteAll(offers)
		expect(t, peers[full], "one\n")
		if len(writable) > 0 {
			t.Error("Writable was called of a session that took everything")
		}
	})
}

// An array of offers on the caller's stack stays on the stack.
func TestTryWriteAllAllocates(t *testing.T) {
	_, sessions := dialMany(t, transports[0], 3, nil)
	frame := []byte("one\n")
	n := testing.AllocsPerRun(100, func() {
		var offers [3]session.Offer
		for i, s := range sessions {
			offers[i] = session.Offer{Session: s, Frame: frame}
		}
		session.TryWriteAll(offers[:])
		for i := range offers {
			if !offers[i].Taken {
				t.Fatal("a frame was not taken")
			}
		}
	})
	if n != 0 {
		t.Errorf("a call allocates %v times", n)
	}
}

// Several goroutines offer frames to all sessions while sessions end on either side. Frames that the other sessions have taken arrive, once and
// in order.
func TestTryWriteAllAndClose(t *testing.T) {
	overSome(t, direct, func(t *testing.T, tr transport) {
		const count, senders = 40, 2
		peers, sessions := dialMany(t, tr, count, smallBuffers())
		var took [count][senders][]byte
		var all sync.WaitGroup
		for sender := range senders {
			all.Go(func() {
				for n := range byte(100) {
					offers := make([]session.Offer, count)
					for i, s := range sessions {
						offers[i] = session.Offer{Session: s, Frame: bytes.Repeat([]byte{byte(sender)<<7 | n}, 200)}
					}
					session.TryWriteAll(offers)
					for i := range offers {
						if offers[i].Taken {
							took[i][sender] = append(took[i][sender], byte(sender)<<7|n)
						}
					}
				}
			})
		}
		for i := 1; i < count; i += 2 {
			all.Go(func() {
				_, _ = io.CopyN(io.Discard, peers[i], int64(20*i)) // at least the first frames
				if i%4 == 1 {
					_ = peers[i].Close()
				} else {
					sessions[i].Close()
				}
			})
		}
		testwait.Return(t, all.Wait)
		for i := 0; i < count; i += 2 {
			var got [senders][]byte
			frame := make([]byte, 200)
			for range len(took[i][0]) + len(took[i][1]) {
				if _, err := io.ReadFull(peers[i], frame); err != nil {
					t.Fatal(err)
				}
				got[frame[0]>>7] = append(got[frame[0]>>7], frame[0])
				if n := bytes.Count(frame, frame[:1]); n != len(frame) {
					t.Fatalf("a frame of %d has bytes of others", i)
				}
			}
			for sender := range senders {
				if !bytes.Equal(got[sender], took[i][sender]) {
					t.Errorf("session %d got %v of sender %d, which it took as %v", i, got[sender], sender, took[i][sender])
				}
			}
		}
	})
}
