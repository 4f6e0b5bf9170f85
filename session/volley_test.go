package session_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

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
		all.Wait()
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
		all.Wait()
	})
}
