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

// newCrowd returns n clients of one server, and their sessions in the same order.
func newCrowd(t *testing.T, tr transport, n int, o *session.Options) (peers []net.Conn, sessions []*session.Session) {
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

// Several goroutines send to everybody at once, and one to each alone, through small buffers and queues: everybody gets everything, and the
// calls of all encoders come in the order of the bytes.
func TestSendAllInOrder(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		const crowd, senders, each = 40, 3, 12
		o := smallBuffers()
		o.QueueBytes = 40_000
		peers, sessions := newCrowd(t, tr, crowd, o)
		tongues := make([]*tongues, crowd)
		for i := range tongues {
			tongues[i] = newTongues()
		}
		var all sync.WaitGroup
		for who := range senders {
			all.Go(func() {
				for round := range each {
					msg := bytes.Repeat([]byte{'x'}, []int{1, 50, 3000, 12_000, 20_000}[(round+who)%5])
					letters := make([]session.Letter, crowd)
					for i, s := range sessions {
						letters[i] = session.Letter{Session: s, As: tongues[i].text, Msg: msg}
						if (i+round)%2 == 0 {
							letters[i].As = tongues[i].binary
						}
					}
					session.SendAll(letters)
					for i := range letters {
						if letters[i].Err != nil {
							t.Error(letters[i].Err)
						}
					}
					clear(msg)
				}
			})
		}
		all.Go(func() {
			for range each {
				for i, s := range sessions {
					if err := s.SendAs(tongues[i].text, []byte("alone")); err != nil {
						t.Error(err)
					}
				}
			}
		})
		for _, peer := range peers {
			all.Go(func() {
				alone := 0
				for want := range uint64((senders + 1) * each) {
					_, number, msg := readSaid(t, peer)
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

// bareFrame is an encoder whose messages are frames already.
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

// Each letter has an error of its own: of a codec, of a session that is over. The others arrive. Nothing at all is no letter.
func TestSendAllErrors(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		peers, sessions := newCrowd(t, tr, 5, nil)
		sessions[2].Abort(errors.New("enough"))
		failing := newTongues()
		failing.text.fail = errors.New("cannot be said")
		letters := []session.Letter{
			{Session: sessions[0], Msg: []byte("codec")},
			{Session: sessions[1], As: failing.text, Msg: []byte("x")},
			{Session: sessions[2], Msg: []byte("x")},
			{Session: sessions[3], As: bareFrame{}, Msg: []byte("frame\n")},
			{Session: sessions[4], As: bareFrame{}},
		}
		session.SendAll(nil)
		session.SendAll(letters)
		for i, want := range []error{nil, failing.text.fail, session.ErrClosed, nil, nil} {
			if !errors.Is(letters[i].Err, want) {
				t.Errorf("letter %d: %v, want %v", i, letters[i].Err, want)
			}
		}
		letters[1].As, letters[4].Msg = nil, []byte("last\n")
		session.SendAll(letters)
		for i, want := range map[int]string{0: "codec\ncodec\n", 1: "x\n", 3: "frame\nframe\n", 4: "last\n"} {
			expect(t, peers[i], want)
		}
	})
}

// What was to be sent before an encoder panicked is sent, and all sessions go on.
func TestSendAllPanic(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		peers, sessions := newCrowd(t, tr, 3, nil)
		send := func(e bareFrame) (panicked any) {
			defer func() { panicked = recover() }()
			session.SendAll([]session.Letter{
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

// A session that is in a volley is closed meanwhile: its end waits for the volley, and no pen stays behind.
func TestSendAllAndClose(t *testing.T) {
	overSome(t, direct, func(t *testing.T, tr transport) {
		const crowd = 30
		peers, sessions := newCrowd(t, tr, crowd, smallBuffers())
		msg := bytes.Repeat([]byte("y"), 4000)
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				letters := make([]session.Letter, crowd)
				for over := false; !over; {
					over = true
					for i, s := range sessions {
						letters[i] = session.Letter{Session: s, As: bareFrame{}, Msg: msg}
					}
					session.SendAll(letters)
					for i := range letters {
						err := letters[i].Err
						over = over && errors.Is(err, session.ErrClosed)
						if err != nil && !errors.Is(err, session.ErrClosed) && !errors.Is(err, session.ErrQueueFull) {
							t.Error(err)
						}
					}
				}
			})
		}
		for i := range crowd {
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

// What a volley does not deliver at once is as with TryWrite: none is taken of a session that has something waiting, and Writable follows;
// the rest of one that was partly taken arrives; a session occurs twice, and is offered both.
func TestTryWriteAll(t *testing.T) {
	overSome(t, direct, func(t *testing.T, tr transport) {
		const crowd = 70 // more than a volley
		writable := make(chan *session.Session, 3*crowd)
		var opened atomic.Int32 // before that a session over TLS takes nothing
		f := newFixture(t, tr, line, session.Handler{
			Open:     func(*session.Session) error { opened.Add(1); return nil },
			Writable: func(s *session.Session) { writable <- s },
		}, smallBuffers())
		peers := []net.Conn{f.client}
		for len(peers) < crowd {
			peers = append(peers, f.dial())
		}
		await(t, func() bool { return opened.Load() == crowd })
		sessions := slices.SortedFunc(f.srv.Sessions(), func(a, b *session.Session) int { return int(a.ID()) - int(b.ID()) })
		sessions[5].Abort(errors.New("enough"))
		const full, late = 2, 3
		flood := bytes.Repeat([]byte{'f'}, 1<<20) // more than the socket takes
		if taken, err := sessions[full].TryWrite([][]byte{flood}); taken != 1 || err != nil {
			t.Fatalf("took %d, %v", taken, err)
		}
		offers := make([]session.Offer, 0, crowd+1)
		for i, s := range sessions {
			frame := []byte("one\n")
			if i == late {
				frame = flood
			}
			offers = append(offers, session.Offer{Session: s, Frame: frame, Taken: i%2 == 0})
		}
		offers = append(offers, session.Offer{Session: sessions[crowd-1], Frame: []byte("two\n")})
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
			case crowd - 1:
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

// An array of offers that the caller has on its stack stays there.
func TestTryWriteAllAllocates(t *testing.T) {
	_, sessions := newCrowd(t, transports[0], 3, nil)
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

// Several offer frames to everybody while sessions end on either side: what was taken of those that stay arrives, once and in order.
func TestTryWriteAllAndClose(t *testing.T) {
	overSome(t, direct, func(t *testing.T, tr transport) {
		const crowd, senders = 40, 2
		peers, sessions := newCrowd(t, tr, crowd, smallBuffers())
		var took [crowd][senders][]byte
		var all sync.WaitGroup
		for who := range senders {
			all.Go(func() {
				for n := range byte(100) {
					offers := make([]session.Offer, crowd)
					for i, s := range sessions {
						offers[i] = session.Offer{Session: s, Frame: bytes.Repeat([]byte{byte(who)<<7 | n}, 200)}
					}
					session.TryWriteAll(offers)
					for i := range offers {
						if offers[i].Taken {
							took[i][who] = append(took[i][who], byte(who)<<7|n)
						}
					}
				}
			})
		}
		for i := 1; i < crowd; i += 2 {
			all.Go(func() {
				_, _ = io.CopyN(io.Discard, peers[i], int64(20*i)) // which the first frames have
				if i%4 == 1 {
					_ = peers[i].Close()
				} else {
					sessions[i].Close()
				}
			})
		}
		testwait.Return(t, all.Wait)
		for i := 0; i < crowd; i += 2 {
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
			for who := range senders {
				if !bytes.Equal(got[who], took[i][who]) {
					t.Errorf("session %d got %v of sender %d, which it took as %v", i, got[who], who, took[i][who])
				}
			}
		}
	})
}
