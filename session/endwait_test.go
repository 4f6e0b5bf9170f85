package session_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
	network "github.com/sluice-push/sluice/transport"
	"github.com/sluice-push/sluice/workerpool"
)

// endWaitFixture is a fixture whose peer sends "bad" as its closing message. The channel gets the handled messages.
func endWaitFixture(t *testing.T, tr transport, fail error, o *session.Options) (f *fixture, handled chan string) {
	t.Helper()
	handled = make(chan string, 10)
	f = newFixture(t, tr, nil, session.Handler{
		Open:    func(s *session.Session) error { s.SetCodec(&replyingCodec{fail: fail}); return nil },
		Message: func(_ *session.Session, msg []byte) { handled <- string(msg) },
	}, o)
	return f, handled
}

// checkEnded checks the end of a session for which EndWait was called with errOurs. The peer must not have got anything after the last frame.
func checkEnded(t *testing.T, f *fixture, handled chan string) {
	t.Helper()
	if rest := expectEnd(t, f.client); rest != "" {
		t.Errorf("%q came after the goodbye", rest)
	}
	_ = f.client.Close()
	if info := receive(t, f.closed); info.By != session.ByLocal || !errors.Is(info.Err, errOurs) || info.Undelivered != 0 {
		t.Errorf("ended by %v, %v, %d bytes undelivered", info.By, info.Err, info.Undelivered)
	}
	if len(handled) != 0 {
		t.Errorf("%q was handled", testwait.Receive(t, handled))
	}
}

// After EndWait the connection is half-closed only when the peer has sent its closing message, in whatever pieces. Messages before that are
// decoded and not handled.
func TestEndWaitWithAPeerThatAnswers(t *testing.T) {
	for _, executor := range []bool{false, true} {
		over(t, func(t *testing.T, tr transport) {
			for _, fail := range []error{io.EOF, codec.ErrTooLarge} {
				o := smallBuffers()
				o.Linger = 2 * limit
				if executor {
					ex := workerpool.NewShared(&workerpool.Options{Workers: 1})
					defer shutDown(t, ex)
					o.Executor = ex
				}
				f, handled := endWaitFixture(t, tr, fail, o)
				if err := f.s.Send([]byte("first")); err != nil {
					t.Error(err)
				}
				f.s.EndWait([]byte("goodbye\n"), errOurs)
				f.s.EndWait([]byte("again\n"), nil)
				f.s.End([]byte("again\n"), nil)
				if err := f.s.Send(nil); !errors.Is(err, session.ErrClosed) || !errors.Is(err, errOurs) {
					t.Errorf("error %v", err)
				}
				expect(t, f.client, "first\ngoodbye\n")
				const more = "too late\nping\n"
				write(t, f.client, more)
				await(t, func() bool { return f.srv.Stats().BytesIn == uint64(len(more)) && !f.s.HasQueueOrWriter() })
				if session.HalfClosed(f.s) || f.srv.Len() != 1 {
					t.Error("the peer was told of the end before it had answered")
				}
				write(t, f.client, "bad\n")
				checkEnded(t, f, handled)
				_ = f.srv.Close()
			}
		})
	}
}

// The peer may send its closing message while earlier frames are still on their way to it.
func TestEndWaitWithAPeerThatAnswersFirst(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		o := smallBuffers()
		o.Linger = 2 * limit
		f, handled := endWaitFixture(t, tr, io.EOF, o)
		big := strings.Repeat("x", 1<<20) // more than one write takes
		if err := f.s.Write([]byte(big)); err != nil {
			t.Fatal(err)
		}
		f.s.EndWait([]byte("goodbye\n"), errOurs)
		write(t, f.client, "bad\n")
		await(t, func() bool { return f.srv.Stats().BytesIn == 4 })
		if session.HalfClosed(f.s) && f.s.Queued() > 0 {
			t.Error("the end was told before all was written")
		}
		expect(t, f.client, big+"goodbye\n")
		checkEnded(t, f, handled)
	})
}

// A peer that half-closes has answered as well.
func TestEndWaitWithAPeerThatEnds(t *testing.T) {
	overSome(t, func(tr transport) bool { return tr.halfCloses }, func(t *testing.T, tr transport) {
		o := smallBuffers()
		o.Linger = 2 * limit
		f, handled := endWaitFixture(t, tr, io.EOF, o)
		f.s.EndWait([]byte("goodbye\n"), errOurs)
		expect(t, f.client, "goodbye\n")
		write(t, f.client, "half a mess")
		if err := f.client.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		checkEnded(t, f, handled)
	})
}

// If the peer does not answer, the session waits for Linger and no longer, whatever else the peer sends. Without Linger it does not wait.
func TestEndWaitWithAPeerThatDoesNotAnswer(t *testing.T) {
	for _, linger := range []time.Duration{20 * time.Millisecond, -1} {
		over(t, func(t *testing.T, tr transport) {
			for _, talks := range []bool{false, true} {
				o := smallBuffers()
				o.Linger = linger
				f, handled := endWaitFixture(t, tr, io.EOF, o)
				f.s.EndWait([]byte("goodbye\n"), errOurs)
				expect(t, f.client, "goodbye\n")
				if talks { // until the connection is closed
					for err := error(nil); err == nil; {
						_, err = io.WriteString(f.client, strings.Repeat("blah\nping\n", 1000))
					}
				}
				if info := receive(t, f.closed); info.By != session.ByLocal || !errors.Is(info.Err, errOurs) {
					t.Errorf("ended by %v, %v", info.By, info.Err)
				}
				if len(handled) != 0 {
					t.Errorf("%q was handled", testwait.Receive(t, handled))
				}
			}
		})
	}
}

// Linger bounds the wait for the closing message and for the peer's end after it, together.
func TestEndWaitIsBounded(t *testing.T) {
	for _, answers := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const linger = 5 * time.Second
			srv := session.NewServer(nil, &session.Handler{
				Open: func(s *session.Session) error { s.SetCodec(&replyingCodec{fail: io.EOF}); return nil },
			}, &session.Options{Linger: linger})
			defer srv.Close()
			client, server := network.Pipe(0)
			defer client.Close()
			s, err := srv.ServeConn(server, nil)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			began := time.Now()
			s.EndWait([]byte("goodbye\n"), errOurs)
			<-time.After(linger - time.Second)
			expect(t, client, "goodbye\n")
			if answers {
				write(t, client, "bad\n")
				if rest := expectEnd(t, client); rest != "" || time.Since(began) != linger-time.Second {
					t.Errorf("%q came, and the end after %v", rest, time.Since(began))
				}
			}
			for srv.Len() > 0 && time.Since(began) < time.Minute {
				<-time.After(time.Second)
				synctest.Wait()
			}
			if took := time.Since(began); took != linger {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// A session whose messages are received goes on reading for the closing message although no receiver asks.
func TestEndWaitOfAPull(t *testing.T) {
	for _, receives := range []bool{false, true} {
		over(t, func(t *testing.T, tr transport) {
			o := smallBuffers()
			o.Linger = 2 * limit
			f := newFixture(t, tr, nil, session.Handler{
				Open: func(s *session.Session) error { s.SetCodec(&replyingCodec{fail: io.EOF}); return nil },
				Pull: true,
			}, o)
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			if receives {
				sent := make(chan error, 1)
				go func() { _, err := io.WriteString(f.client, "one\ntwo\n"); sent <- err }() // a receiver has to ask for these
				receiveOne(t, f.s, "one")
				if err := receive(t, sent); err != nil {
					t.Error(err)
				}
			}
			f.s.EndWait([]byte("goodbye\n"), errOurs)
			if _, err := f.s.Receive(ctx); !errors.Is(err, session.ErrClosed) || !errors.Is(err, errOurs) {
				t.Errorf("error %v", err)
			}
			expect(t, f.client, "goodbye\n")
			write(t, f.client, strings.Repeat("three\n", 20_000)+"bad\n")
			checkEnded(t, f, nil)
		})
	}
}
