package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// pullFixture is a fixture whose session's messages are received.
func pullFixture(t *testing.T, tr transport, o *session.Options) *fixture {
	t.Helper()
	return newFixture(t, tr, line, session.Handler{Pull: true}, o)
}

// shortLine is a codec for which messages are soon too large.
var shortLine = codec.Line{Max: -1}

// receiveOne receives a message, which must be want.
func receiveOne(t testing.TB, s *session.Session, want string) {
	t.Helper()
	msg, err := s.Receive(testwait.Context(t))
	if err != nil || string(msg) != want {
		t.Fatalf("received %.100q, %v; want %.100q", msg, err, want)
	}
}

func TestReceive(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		f := pullFixture(t, tr, nil)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, _ = io.WriteString(f.client, "one\n\ntwo\n")
		}()
		if f.srv.Stats().BytesIn != 0 {
			t.Error("something was read before anybody asked")
		}
		receiveOne(t, f.s, "one")
		receiveOne(t, f.s, "")
		if err := f.s.Send([]byte("hello")); err != nil {
			t.Error(err)
		}
		expect(t, f.client, "hello\n")
		receiveOne(t, f.s, "two")
		receive(t, sent)
		_ = f.client.Close()
		for range 2 {
			if msg, err := f.s.Receive(testwait.Context(t)); msg != nil || !errors.Is(err, io.EOF) {
				t.Errorf("received %q, %v", msg, err)
			}
		}
		err := errors.New("what was there before")
		for msg := range f.s.Messages(testwait.Context(t), &err) {
			t.Errorf("received %q", msg)
		}
		if err != nil {
			t.Errorf("error %v", err)
		}
		if info := receive(t, f.closed); info.By != session.ByPeer {
			t.Errorf("ended by %v, %v", info.By, info.Err)
		}
	})
}

// A receiver that breaks out of an iteration gets all messages that follow later. Meanwhile the session reads no more than a buffer full.
func TestMessagesBreak(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		f := pullFixture(t, tr, smallBuffers())
		const n = 40
		body := strings.Repeat("x", 50_000)
		wrote := make(chan error, 1)
		go func() {
			var err error
			for i := range n {
				_, e := fmt.Fprintf(f.client, "%d %s\n", i, body)
				err = errors.Join(err, e)
			}
			wrote <- err
			_ = f.client.Close()
		}()
		next := 0
		for next < n {
			var err error
			for msg := range f.s.Messages(testwait.Context(t), &err) {
				if want := strconv.Itoa(next) + " " + body; err != nil || string(msg) != want {
					t.Fatalf("received %.20q, %v; want %.20q", msg, err, want)
				}
				next++
				if next%7 == 0 {
					break
				}
			}
			if read := int(f.srv.Stats().BytesIn); read > (next+1)*len(body)+300_000 {
				t.Fatalf("%d bytes were read for %d messages", read, next)
			}
		}
		if err := receive(t, wrote); err != nil {
			t.Error(err)
		}
		var err error
		for range f.s.Messages(testwait.Context(t), &err) {
			t.Error("one more")
		}
	})
}

// Whenever the context ends, no message is lost, doubled or out of order.
func TestReceiveLosesNothing(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		f := pullFixture(t, tr, nil)
		ctx, cancel := context.WithCancel(testwait.Context(t))
		go cancel()
		if msg, err := f.s.Receive(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("received %q, %v", msg, err)
		}
		const n = 2000
		go func() {
			var all bytes.Buffer
			for i := range n {
				fmt.Fprintln(&all, i)
			}
			rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable
			for all.Len() > 0 {
				if _, err := f.client.Write(all.Next(1 + rnd.IntN(500))); err != nil {
					return
				}
			}
		}()
		for next := 0; next < n; {
			ctx, cancel := context.WithCancel(testwait.Context(t))
			go cancel()
			msg, err := f.s.Receive(ctx)
			switch {
			case errors.Is(err, context.Canceled):
			case err != nil || string(msg) != strconv.Itoa(next):
				t.Fatalf("received %q, %v; want %d", msg, err, next)
			default:
				next++
			}
			cancel()
		}
	})
}

func TestReceiveErrors(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		cause := errors.New("cause")
		tests := map[string]struct {
			end  func(f *fixture)
			want error
		}{
			"close":  {func(f *fixture) { f.s.Close() }, session.ErrClosed},
			"abort":  {func(f *fixture) { f.s.Abort(cause) }, cause},
			"end":    {func(f *fixture) { f.s.End([]byte("bye\n"), cause) }, cause},
			"server": {func(f *fixture) { _ = f.srv.Close() }, session.ErrServerClosed},
			"broken": {func(f *fixture) { _, _ = io.WriteString(f.client, strings.Repeat("x", 100)+"\n") }, session.ErrTooLarge},
			"half":   {func(f *fixture) { _, _ = io.WriteString(f.client, "hal"); _ = f.client.Close() }, io.ErrUnexpectedEOF},
		}
		for name, tt := range tests {
			for _, waiting := range []bool{false, true} { // either a receiver waits for a message, or a message waits for a receiver
				t.Run(fmt.Sprint(name, waiting), func(t *testing.T) {
					o := &session.Options{MaxMessage: 10, Linger: -1, WriteTimeout: 50 * time.Millisecond}
					f := newFixture(t, tr, shortLine, session.Handler{Pull: true}, o)
					if waiting && (name == "broken" || name == "half") {
						return
					}
					if waiting {
						go func() { _, _ = io.WriteString(f.client, "one\ntwo\n") }()
						receiveOne(t, f.s, "one")
						await(t, func() bool { return session.AwaitsReceiver(f.s) })
					}
					go tt.end(f)
					if waiting {
						_ = receive(t, f.closed)
					}
					var last error
					for msg := range f.s.Messages(testwait.Context(t), &last) {
						t.Errorf("received %q", msg)
					}
					if !errors.Is(last, tt.want) || !errors.Is(last, session.ErrClosed) {
						t.Errorf("error %v, want %v", last, tt.want)
					}
				})
			}
		}
	})
}

func TestOneReceiver(t *testing.T) {
	f := pullFixture(t, transports[0], nil)
	for range 2 {
		write(t, f.client, "one\ntwo\n")
		var first, second error
		for msg := range f.s.Messages(testwait.Context(t), &first) {
			if string(msg) != "one" {
				t.Errorf("received %q", msg)
			}
			if _, err := f.s.Receive(testwait.Context(t)); !errors.Is(err, session.ErrReceiving) {
				t.Errorf("error %v", err)
			}
			for range f.s.Messages(testwait.Context(t), &second) {
				t.Error("two receive")
			}
			break
		}
		if first != nil || !errors.Is(second, session.ErrReceiving) {
			t.Errorf("errors %v, %v", first, second)
		}
		receiveOne(t, f.s, "two")
	}
	f = newFixture(t, transports[0], line, session.Handler{}, nil)
	if _, err := f.s.Receive(testwait.Context(t)); !errors.Is(err, session.ErrNoPull) {
		t.Errorf("error %v", err)
	}
	var err error
	for range f.s.Messages(testwait.Context(t), &err) {
		t.Error("a message")
	}
	if !errors.Is(err, session.ErrNoPull) {
		t.Errorf("error %v", err)
	}
}

// A handler may leave the rest of a session to a receiver.
func TestUpgradeToPull(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		sessions := make(chan *session.Session, 1)
		f := newFixture(t, tr, line, session.Handler{Message: func(s *session.Session, _ []byte) {
			s.SetHandler(&session.Handler{Pull: true})
			sessions <- s
		}}, nil)
		go func() { _, _ = io.WriteString(f.client, "go\none\ntwo\n") }()
		s := receive(t, sessions)
		receiveOne(t, s, "one")
		receiveOne(t, s, "two")
		s.Close()
		if _, err := s.Receive(testwait.Context(t)); !errors.Is(err, session.ErrClosed) {
			t.Errorf("error %v", err)
		}
	})
}

// While a message waits for its receiver, the idle timeout of the peer does not run. It runs while a receiver waits for a message.
func TestIdleWhileNoReceiverAsks(t *testing.T) {
	for _, handshake := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := &session.Options{IdleTimeout: time.Minute, HandshakeTimeout: time.Minute}
			srv := session.NewServer(line, &session.Handler{Pull: true}, o)
			defer srv.Close()
			client, server := net.Pipe()
			defer client.Close()
			at := &session.Attach{}
			if handshake {
				at = nil
			}
			s, err := srv.ServeConn(server, at)
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Hour)
			go func() { _, _ = io.WriteString(client, "one\n") }()
			if msg, err := s.Receive(context.Background()); err != nil || string(msg) != "one" {
				t.Fatalf("%q, %v", msg, err)
			}
			go func() { _, _ = io.WriteString(client, "two\nthree\n") }()
			<-time.After(time.Hour)
			for _, want := range []string{"two", "three"} {
				if msg, err := s.Receive(context.Background()); err != nil || string(msg) != want {
					t.Fatalf("%q, %v", msg, err)
				}
			}
			began := time.Now()
			if _, err := s.Receive(context.Background()); !errors.Is(err, session.ErrTimeout) {
				t.Errorf("error %v", err)
			}
			if took := time.Since(began); took > 2*time.Minute {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// Frames that are sent while a message waits for its receiver are not corked, because the wait may be long.
func TestSendWhileAMessageWaits(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		f := pullFixture(t, tr, nil)
		go func() { _, _ = io.WriteString(f.client, "one\ntwo\nthree\n") }()
		for _, want := range []string{"one", "two", "three"} {
			receiveOne(t, f.s, want)
			await(t, func() bool { return want == "three" || session.AwaitsReceiver(f.s) })
			if want != "three" && session.Corked(f.s) {
				t.Error("what is sent is gathered")
			}
			if err := f.s.Send([]byte("re: " + want)); err != nil {
				t.Fatal(err)
			}
			expect(t, f.client, "re: "+want+"\n")
		}
	})
}
