package session_test

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// A receiver answers the last message although the peer has half-closed: the end of the stream takes effect when the receiver asks again
// (golang/go#18527, MDA2AV/ioxide#164).
func TestTheLastMessageIsAnswered(t *testing.T) {
	overSome(t, func(tr transport) bool { return tr.halfCloses }, func(t *testing.T, tr transport) {
		f := pullFixture(t, tr, nil)
		write(t, f.client, "one\ntwo\nthree\n")
		if err := f.client.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"one", "two", "three"} {
			receiveOne(t, f.s, want)
			await(t, func() bool { return session.AwaitsReceiver(f.s) }) // the session has read the bytes behind the message
			if err := f.s.Send([]byte("re: " + want)); err != nil {
				t.Fatal(err)
			}
			expect(t, f.client, "re: "+want+"\n")
		}
		if _, err := f.s.Receive(testwait.Context(t)); !errors.Is(err, io.EOF) {
			t.Errorf("received at the end: %v", err)
		}
		if info := receive(t, f.closed); info.By != session.ByPeer || !errors.Is(info.Err, io.EOF) || info.Undelivered != 0 {
			t.Errorf("ended by %v, %v, %d bytes undelivered", info.By, info.Err, info.Undelivered)
		}
	})
}

// If the codec fails behind a message, that message is still answered first.
func TestTheLastMessageIsAnsweredBeforeARefusal(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		f := pullFixture(t, tr, &session.Options{MaxMessage: 100})
		sent := make(chan error, 1)
		go func() {
			_, err := io.WriteString(f.client, "one\n"+strings.Repeat("x", 1000)+"\n")
			sent <- err
		}()
		receiveOne(t, f.s, "one")
		await(t, func() bool { return session.AwaitsReceiver(f.s) })
		if err := f.s.Send([]byte("re: one")); err != nil {
			t.Fatal(err)
		}
		expect(t, f.client, "re: one\n")
		if _, err := f.s.Receive(testwait.Context(t)); !errors.Is(err, session.ErrTooLarge) {
			t.Errorf("received at the end: %v", err)
		}
		_ = f.client.Close()
		_ = receive(t, sent) // the session may have ended before it read all bytes
		receive(t, f.closed)
	})
}

// A session whose receiver does not ask again ends when the server closes.
func TestAnEndThatWaitsForTheReceiverIsCut(t *testing.T) {
	overSome(t, func(tr transport) bool { return tr.halfCloses }, func(t *testing.T, tr transport) {
		f := pullFixture(t, tr, nil)
		write(t, f.client, "one\n")
		_ = f.client.Close()
		receiveOne(t, f.s, "one")
		await(t, func() bool { return session.AwaitsReceiver(f.s) })
		f.s.Close()
		receive(t, f.closed)
		if _, err := f.s.Receive(testwait.Context(t)); !errors.Is(err, session.ErrClosed) {
			t.Errorf("received at the end: %v", err)
		}
	})
}

// A receiver that waits holds no memory for the next message (panjf2000/gnet#662).
func TestAWaitingReceiverHoldsNoMemory(t *testing.T) {
	const sessions, size = 100, 60_000
	held := func() uint64 {
		var m runtime.MemStats
		for range 3 { // pools are emptied in two steps
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	msg := strings.Repeat("x", size)
	var all []*fixture
	for range sessions {
		f := pullFixture(t, transports[0], nil)
		all = append(all, f)
		sent := make(chan error, 1)
		go func() { _, err := io.WriteString(f.client, msg+"\n"); sent <- err }()
		receiveOne(t, f.s, msg)
		if err := receive(t, sent); err != nil {
			t.Fatal(err)
		}
	}
	with := held()
	ended := make(chan error, sessions)
	for _, f := range all {
		go func() { _, err := f.s.Receive(testwait.Context(t)); ended <- err }()
	}
	await(t, func() bool { return held() < with-sessions*size/2 })
	for _, f := range all {
		f.s.Close()
		if err := receive(t, ended); !errors.Is(err, session.ErrClosed) {
			t.Error(err)
		}
	}
}
