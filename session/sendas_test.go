package session_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// numbering is a codec or an encoder that puts a letter and a number before each message. The codec and the encoders of one session share the
// number, as encoders that compress share a dictionary.
type numbering struct {
	codec.Line
	letter byte
	next   *uint64 // of the session; guarded by its write lock
	fail   error
}

func (e *numbering) AppendEncode(dst, msg []byte) ([]byte, error) {
	dst, err := e.appendHead(dst, msg)
	return append(dst, msg...), err
}

func (e *numbering) appendHead(dst, msg []byte) ([]byte, error) {
	if e.fail != nil {
		return dst, e.fail
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(msg)))
	dst = binary.BigEndian.AppendUint64(append(dst, e.letter), *e.next)
	*e.next++
	return dst, nil
}

// numberingHead is a numbering that is also a Prefixer.
type numberingHead struct {
	numbering
	heads int
}

func (e *numberingHead) AppendHeader(dst, msg []byte) ([]byte, error) {
	e.heads++
	return e.appendHead(dst, msg)
}

// encoderSet has the codec of a session, which is no Prefixer, and two encoders, of which the second is one.
type encoderSet struct {
	own, text *numbering
	binary    *numberingHead
}

func newEncoderSet() *encoderSet {
	next := new(uint64)
	return &encoderSet{
		own:    &numbering{Line: line, letter: 'c', next: next},
		text:   &numbering{letter: 't', next: next},
		binary: &numberingHead{numbering: numbering{letter: 'b', next: next}},
	}
}

// send sends msg in one of three ways.
func (g *encoderSet) send(s *session.Session, way int, msg []byte) error {
	switch way % 3 {
	case 0:
		return s.Send(msg)
	case 1:
		return s.SendAs(g.text, msg)
	default:
		return s.SendAs(g.binary, msg)
	}
}

// readSent reads a frame that send has sent.
func readSent(t testing.TB, r io.Reader) (letter byte, number uint64, msg string) {
	t.Helper()
	head := make([]byte, 13)
	if _, err := io.ReadFull(r, head); err != nil {
		t.Fatal(err)
	}
	rest := make([]byte, binary.BigEndian.Uint32(head))
	if _, err := io.ReadFull(r, rest); err != nil {
		t.Fatal(err)
	}
	return head[4], binary.BigEndian.Uint64(head[5:]), string(rest)
}

// Frames are corked, wait in a full queue, or are written at once, by any goroutine. The calls of all encoders come in the order of the bytes,
// and each message is encoded by the encoder that it was given to.
func TestSendAsInOrder(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		const senders, each = 6, 120
		g := newEncoderSet()
		o := smallBuffers()
		o.QueueBytes = 20_000
		f := newFixture(t, tr, nil, session.Handler{
			Open: func(s *session.Session) error { s.SetCodec(g.own); return nil },
			Message: func(s *session.Session, msg []byte) {
				for i := range 3 {
					if err := g.send(s, i, msg); err != nil {
						t.Error(err)
					}
				}
			},
		}, o)
		var all sync.WaitGroup
		for sender := range senders {
			all.Go(func() {
				for i := range each {
					msg := bytes.Repeat([]byte{"ctb"[i%3]}, []int{1, 50, 3000, 12_000}[(i+sender)%4])
					if err := g.send(f.s, i, msg); err != nil {
						t.Error(err)
					}
					clear(msg)
				}
			})
		}
		all.Go(func() {
			if _, err := io.WriteString(f.client, strings.Repeat("echo\n", each)); err != nil {
				t.Error(err)
			}
		})
		defer testwait.Return(t, all.Wait)
		echoed := 0
		for want := range uint64(senders*each + 3*each) {
			letter, number, msg := readSent(t, f.client)
			if number != want {
				t.Fatalf("message %d has number %d", want, number)
			}
			if msg == "echo" {
				echoed++
			} else if strings.Trim(msg, string(letter)) != "" {
				t.Fatalf("message %d of %d bytes was encoded as %c", number, len(msg), letter)
			}
		}
		if echoed != 3*each {
			t.Errorf("%d messages were echoed", echoed)
		}
	})
}

// If the connection can be written without blocking, a Prefixer is asked only for the header of a large message. The peer gets the same bytes.
func TestSendAsLarge(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		g := newEncoderSet()
		large := bytes.Repeat([]byte("0123456789"), 30_000)
		f := newFixture(t, tr, line, session.Handler{Message: func(s *session.Session, _ []byte) {
			for _, msg := range [][]byte{large[:10], large, large[:20]} {
				if err := s.SendAs(g.binary, msg); err != nil {
					t.Error(err)
				}
			}
			if s.Direct() != (g.binary.heads == 1) {
				t.Errorf("the encoder was asked for %d headers alone", g.binary.heads)
			}
		}}, nil)
		write(t, f.client, "go\n")
		for i, want := range [][]byte{large[:10], large, large[:20]} {
			if _, number, msg := readSent(t, f.client); number != uint64(i) || msg != string(want) {
				t.Fatalf("message %d, of %d bytes, came as number %d", i, len(msg), number)
			}
		}
	})
}

// A frame that is refused is not encoded. A frame that is dropped was encoded. A frame that waits is encoded before it waits.
func TestSendAsToAFullQueue(t *testing.T) {
	for policy, want := range map[session.Policy]string{session.Refuse: "0123", session.DropOldest: "0456", session.Wait: "0123456"} {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			g := newEncoderSet()
			f, v := valve(t, session.Handler{}, &session.Options{Policy: policy, QueueFrames: 4, Linger: -1})
			v.Give(1)
			var all sync.WaitGroup
			refused := 0
			for i := range 7 {
				msg := []byte{'0' + byte(i)}
				if policy == session.Wait && i >= 4 {
					before := f.s.Waiters()
					all.Go(func() {
						if err := g.send(f.s, 2, msg); err != nil {
							t.Error(err)
						}
					})
					await(t, func() bool { return f.s.Waiters() > before })
				} else if err := g.send(f.s, 1+i%2, msg); errors.Is(err, session.ErrQueueFull) {
					refused++
				} else if err != nil {
					t.Error(err)
				}
				await(t, v.Stuck) // with the rest of the first frame, and no others
			}
			v.Give(1000)
			testwait.Return(t, all.Wait)
			f.s.End(nil, nil)
			receive(t, f.closed)
			var said []byte
			var numbers []uint64
			for r := strings.NewReader(v.Got()); r.Len() > 0; {
				_, number, msg := readSent(t, r)
				said, numbers = append(said, msg...), append(numbers, number)
			}
			encoded := uint64(7 - refused)
			if string(said) != want || !slices.IsSorted(numbers) || *g.text.next != encoded || numbers[len(numbers)-1] != encoded-1 {
				t.Errorf("%q came, with numbers %v; %d were refused", said, numbers, refused)
			}
		})
	}
}

// An error of the encoder concerns only that call. A session without a codec can send with an encoder, and a nil encoder is the codec.
func TestSendAsErrors(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		g := newEncoderSet()
		failing := &numbering{fail: errOurs}
		try := func(s *session.Session) {
			if err := s.SendAs(failing, []byte("no")); !errors.Is(err, errOurs) || errors.Is(err, session.ErrClosed) {
				t.Errorf("error %v", err)
			}
			if err := s.SendAs(g.text, []byte("yes")); err != nil {
				t.Error(err)
			}
		}
		f := newFixture(t, tr, nil, session.Handler{
			Open: func(s *session.Session) error {
				if err := s.SendAs(nil, nil); !errors.Is(err, session.ErrNoCodec) {
					t.Errorf("error %v", err)
				}
				try(s)
				s.SetCodec(g.own)
				return s.SendAs(nil, []byte("yes"))
			},
			Message: func(s *session.Session, _ []byte) { try(s) },
		}, nil)
		try(f.s)
		write(t, f.client, "go\n")
		for i := range 4 {
			if letter, number, msg := readSent(t, f.client); number != uint64(i) || msg != "yes" || letter != "tctt"[i] {
				t.Errorf("%q came as %d, encoded as %c", msg, number, letter)
			}
		}
		f.s.Abort(errOurs)
		if err := f.s.SendAs(g.text, nil); !errors.Is(err, session.ErrClosed) || !errors.Is(err, errOurs) {
			t.Errorf("error %v", err)
		}
	})
}

// panicEncoder is an encoder that panics.
type panicEncoder struct{}

func (*panicEncoder) AppendEncode([]byte, []byte) ([]byte, error) { panic("boom") }
func (*panicEncoder) AppendHeader(dst, _ []byte) ([]byte, error)  { panic("boom") }

// An encoder panics in the goroutine of its caller. In a handler that ends the session; elsewhere, a caller that recovers can go on.
func TestSendAsPanics(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		for _, size := range []int{1, 20_000} { // corked, and too large for the cork
			f := newFixture(t, tr, line, session.Handler{
				Message: func(s *session.Session, _ []byte) { _ = s.SendAs(new(panicEncoder), make([]byte, size)) },
			}, nil)
			func() {
				defer func() {
					if recover() == nil {
						t.Error("it did not panic")
					}
				}()
				_ = f.s.SendAs(new(panicEncoder), make([]byte, size))
			}()
			if err := f.s.Send([]byte("still here")); err != nil {
				t.Error(err)
			}
			expect(t, f.client, "still here\n")
			write(t, f.client, "go\n")
			var pe *session.PanicError
			if info := receive(t, f.closed); info.By != session.ByPanic || !errors.As(info.Err, &pe) || pe.Value != "boom" {
				t.Errorf("ended by %v, %v", info.By, info.Err)
			}
		}
	})
}

// Over datagrams each message is one datagram, encoded by the encoder that it was given to.
func TestSendAsOverDatagrams(t *testing.T) {
	overPackets(t, func(t *testing.T, kind packetKind) {
		g := newEncoderSet()
		opened, handled := make(chan *session.Session, 1), make(chan struct{})
		f := servePackets(t, kind, &session.Handler{
			Open: func(s *session.Session) error { s.SetCodec(g.own); opened <- s; return nil },
			Message: func(s *session.Session, msg []byte) {
				for i := range 3 {
					if err := g.send(s, i, msg); err != nil {
						t.Error(err)
					}
				}
				if err := s.SendAs(&numbering{fail: errOurs}, msg); !errors.Is(err, errOurs) {
					t.Errorf("error %v", err)
				}
				close(handled)
			},
		}, nil)
		conn := f.dial(t)
		write(t, conn, "hello\n")
		for i := range 6 {
			if i == 3 {
				s := receive(t, opened)
				for way := range 3 {
					if err := g.send(s, way, []byte("hello")); err != nil {
						t.Error(err)
					}
				}
			}
			expectPacket(t, conn, string([]byte{0, 0, 0, 5, "ctb"[i%3], 0, 0, 0, 0, 0, 0, 0, byte(i)})+"hello")
		}
		receive(t, handled) // all its sends have returned
	})
}

// Sending with an encoder allocates no more than sending with the codec, which is nothing.
func TestSendAsAllocates(t *testing.T) {
	g := newEncoderSet()
	msg := make([]byte, 100)
	done := make(chan float64, 1)
	f := newFixture(t, transports[0], line, session.Handler{Message: func(s *session.Session, _ []byte) {
		i := 0
		done <- testing.AllocsPerRun(200, func() { i++; _ = g.send(s, 1+i%2, msg) })
	}}, nil)
	await(t, func() bool {
		before := f.srv.Stats().HandedOff
		write(t, f.client, "go\n")
		n := receive(t, done)
		if n != 0 && f.srv.Stats().HandedOff > before {
			return false // on a busy machine the loop may be handed off, which allocates
		}
		if n != 0 {
			t.Errorf("a call allocates %v times", n)
		}
		return true
	})
}
