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

// numbering is a codec, and an encoder beside one, that puts a letter and a number before each message. Those of one session share the
// number, as encoders that compress share what came before.
type numbering struct {
	codec.Line
	letter byte
	next   *uint64 // of the session: see its write lock
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

// numberingHead is a numbering that has large messages written from where they lie.
type numberingHead struct {
	numbering
	heads int
}

func (e *numberingHead) AppendHeader(dst, msg []byte) ([]byte, error) {
	e.heads++
	return e.appendHead(dst, msg)
}

// tongues are the codec of a session, which is no Prefixer, and two encoders beside it, of which the second is one.
type tongues struct {
	own, text *numbering
	binary    *numberingHead
}

func newTongues() *tongues {
	next := new(uint64)
	return &tongues{
		own:    &numbering{Line: line, letter: 'c', next: next},
		text:   &numbering{letter: 't', next: next},
		binary: &numberingHead{numbering: numbering{letter: 'b', next: next}},
	}
}

// say sends msg in one of the three ways.
func (g *tongues) say(s *session.Session, way int, msg []byte) error {
	switch way % 3 {
	case 0:
		return s.Send(msg)
	case 1:
		return s.SendAs(g.text, msg)
	default:
		return s.SendAs(g.binary, msg)
	}
}

// readSaid reads what one call of say has sent.
func readSaid(t testing.TB, r io.Reader) (letter byte, number uint64, msg string) {
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

// Whoever sends, and whether it is gathered, waits in a full queue or goes at once: the calls of all encoders come in the order of the
// bytes, and each message is encoded by whom it was given to.
func TestSendAsInOrder(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		const senders, each = 6, 120
		g := newTongues()
		o := smallBuffers()
		o.QueueBytes = 20_000
		f := newFixture(t, tr, nil, session.Handler{
			Open: func(s *session.Session) error { s.SetCodec(g.own); return nil },
			Message: func(s *session.Session, msg []byte) {
				for i := range 3 {
					if err := g.say(s, i, msg); err != nil {
						t.Error(err)
					}
				}
			},
		}, o)
		var all sync.WaitGroup
		for who := range senders {
			all.Go(func() {
				for i := range each {
					msg := bytes.Repeat([]byte{"ctb"[i%3]}, []int{1, 50, 3000, 12_000}[(i+who)%4])
					if err := g.say(f.s, i, msg); err != nil {
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
			letter, number, msg := readSaid(t, f.client)
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

// A Prefixer is asked for the header alone where the connection can be written at once; what the peer gets is the same.
func TestSendAsLarge(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		g := newTongues()
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
			if _, number, msg := readSaid(t, f.client); number != uint64(i) || msg != string(want) {
				t.Fatalf("message %d, of %d bytes, came as number %d", i, len(msg), number)
			}
		}
	})
}

// Nothing is encoded for a frame that is refused; what is dropped was; and one that waits is encoded before it does.
func TestSendAsToAFullQueue(t *testing.T) {
	for policy, want := range map[session.Policy]string{session.Refuse: "0123", session.DropOldest: "0456", session.Wait: "0123456"} {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			g := newTongues()
			f, v := valve(t, session.Handler{}, &session.Options{Policy: policy, QueueFrames: 4, Linger: -1})
			v.Give(1)
			var all sync.WaitGroup
			refused := 0
			for i := range 7 {
				msg := []byte{'0' + byte(i)}
				if policy == session.Wait && i >= 4 {
					before := f.s.Waiters()
					all.Go(func() {
						if err := g.say(f.s, 2, msg); err != nil {
							t.Error(err)
						}
					})
					await(t, func() bool { return f.s.Waiters() > before })
				} else if err := g.say(f.s, 1+i%2, msg); errors.Is(err, session.ErrQueueFull) {
					refused++
				} else if err != nil {
					t.Error(err)
				}
				await(t, v.Stuck) // with what is left of the first, not with more
			}
			v.Give(1000)
			testwait.Return(t, all.Wait)
			f.s.End(nil, nil)
			receive(t, f.closed)
			var said []byte
			var numbers []uint64
			for r := strings.NewReader(v.Got()); r.Len() > 0; {
				_, number, msg := readSaid(t, r)
				said, numbers = append(said, msg...), append(numbers, number)
			}
			encoded := uint64(7 - refused)
			if string(said) != want || !slices.IsSorted(numbers) || *g.text.next != encoded || numbers[len(numbers)-1] != encoded-1 {
				t.Errorf("%q came, with numbers %v; %d were refused", said, numbers, refused)
			}
		})
	}
}

// An error of the encoder concerns that call. A session needs no codec for it, and a nil encoder is the codec.
func TestSendAsErrors(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		g := newTongues()
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
			if letter, number, msg := readSaid(t, f.client); number != uint64(i) || msg != "yes" || letter != "tctt"[i] {
				t.Errorf("%q came as %d, encoded as %c", msg, number, letter)
			}
		}
		f.s.Abort(errOurs)
		if err := f.s.SendAs(g.text, nil); !errors.Is(err, session.ErrClosed) || !errors.Is(err, errOurs) {
			t.Errorf("error %v", err)
		}
	})
}

// falling is an encoder that panics.
type falling struct{}

func (*falling) AppendEncode([]byte, []byte) ([]byte, error) { panic("boom") }
func (*falling) AppendHeader(dst, _ []byte) ([]byte, error)  { panic("boom") }

// A panic of an encoder is its caller's: in a handler it ends the session, elsewhere whoever recovers can go on.
func TestSendAsPanics(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		for _, size := range []int{1, 20_000} { // gathered, or not
			f := newFixture(t, tr, line, session.Handler{
				Message: func(s *session.Session, _ []byte) { _ = s.SendAs(new(falling), make([]byte, size)) },
			}, nil)
			func() {
				defer func() {
					if recover() == nil {
						t.Error("it did not panic")
					}
				}()
				_ = f.s.SendAs(new(falling), make([]byte, size))
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

// Over datagrams each message is one, encoded by whom it was given to.
func TestSendAsOverDatagrams(t *testing.T) {
	overPackets(t, func(t *testing.T, kind packetKind) {
		g := newTongues()
		opened, handled := make(chan *session.Session, 1), make(chan struct{})
		f := servePackets(t, kind, &session.Handler{
			Open: func(s *session.Session) error { s.SetCodec(g.own); opened <- s; return nil },
			Message: func(s *session.Session, msg []byte) {
				for i := range 3 {
					if err := g.say(s, i, msg); err != nil {
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
					if err := g.say(s, way, []byte("hello")); err != nil {
						t.Error(err)
					}
				}
			}
			expectPacket(t, conn, string([]byte{0, 0, 0, 5, "ctb"[i%3], 0, 0, 0, 0, 0, 0, 0, byte(i)})+"hello")
		}
		receive(t, handled) // with all that it tried after its third answer
	})
}

// Sending with an encoder allocates no more than sending with the codec, which is nothing.
func TestSendAsAllocates(t *testing.T) {
	g := newTongues()
	msg := make([]byte, 100)
	done := make(chan float64, 1)
	f := newFixture(t, transports[0], line, session.Handler{Message: func(s *session.Session, _ []byte) {
		i := 0
		done <- testing.AllocsPerRun(200, func() { i++; _ = g.say(s, 1+i%2, msg) })
	}}, nil)
	await(t, func() bool {
		before := f.srv.Stats().TakenOver
		write(t, f.client, "go\n")
		n := receive(t, done)
		if n != 0 && f.srv.Stats().TakenOver > before {
			return false // a handler that takes so long on a busy machine has another driver made
		}
		if n != 0 {
			t.Errorf("a call allocates %v times", n)
		}
		return true
	})
}
