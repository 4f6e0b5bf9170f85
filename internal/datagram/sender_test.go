package datagram_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/internal/datagram"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/transport/udp"
)

// cork corks a datagram, which must be possible.
func cork(t testing.TB, sd *datagram.Sender, p datagram.Peer, data string) (full bool) {
	t.Helper()
	copied, full := sd.TryCork(p, []byte(data))
	if !copied {
		t.Errorf("%.10q was not copied", data)
	}
	return full
}

// Corked datagrams are copied, and leave in one call, in order, each to its peer.
func TestGathered(t *testing.T) {
	v, a, b := newValve(10), newPeer(1), newPeer(2)
	bubble(t, v, datagram.Options{}, func(t *testing.T, sd *datagram.Sender) {
		if copied, _ := sd.TryCork(a, []byte("early")); copied {
			t.Error("copied without a cork")
		}
		sd.Cork()
		data := []byte("one")
		if copied, full := sd.TryCork(a, data); !copied || full {
			t.Error("not copied, or full at once")
		}
		copy(data, "xxx")
		cork(t, sd, b, "two")
		cork(t, sd, a, "three")
		v.expect(t, 0)
		if !sd.HasCorked() {
			t.Error("it holds nothing")
		}
		sd.Uncork()
		v.expect(t, 1, "one", "two", "three")
		if v.to[0] != a.at || v.to[1] != b.at || v.to[2] != a.at {
			t.Errorf("sent to %v", v.to)
		}
		a.expect(t, 8, 0, 0)
		b.expect(t, 3, 0, 0)
		if copied, _ := sd.TryCork(a, []byte("late")); copied || sd.HasCorked() {
			t.Error("copied after the cork")
		}
	})
}

// TryCork reports full after many datagrams, or many bytes. It also corks a datagram that is larger than the memory.
func TestGatheredMany(t *testing.T) {
	v, p := newValve(1000), newPeer(1)
	bubble(t, v, datagram.Options{}, func(t *testing.T, sd *datagram.Sender) {
		sd.Cork()
		for i := range 64 {
			if full := cork(t, sd, p, "x"); full != (i == 63) {
				t.Errorf("full at %d: %t", i, full)
			}
		}
		sd.Flush()
		if len(v.got) != 64 || v.calls != 1 {
			t.Errorf("%d datagrams in %d calls", len(v.got), v.calls)
		}
		long, huge := strings.Repeat("l", memory-1000), strings.Repeat("h", 3*memory)
		if !cork(t, sd, p, long) || !cork(t, sd, p, huge) {
			t.Error("not full")
		}
		sd.Uncork()
		if !slices.Equal(v.got[64:], []string{long, huge}) || v.calls != 2 {
			t.Errorf("%d datagrams in %d calls", len(v.got), v.calls)
		}
	})
}

// Tick bounds how long a datagram is corked: the second call that finds it sends it.
func TestLook(t *testing.T) {
	v, p := newValve(10), newPeer(1)
	bubble(t, v, datagram.Options{}, func(t *testing.T, sd *datagram.Sender) {
		sd.Cork()
		if sd.Tick() {
			t.Error("it saw something in nothing")
		}
		cork(t, sd, p, "x")
		if !sd.Tick() {
			t.Error("it saw nothing")
		}
		v.expect(t, 0)
		if !sd.Tick() {
			t.Error("it saw nothing")
		}
		v.expect(t, 1, "x")
		if sd.Tick() {
			t.Error("it saw something after all was sent")
		}
	})
}

// Corked datagrams that find no room wait, in order and up to bounds of bytes and time, or are dropped, as the options say.
func TestGatheredWithoutRoom(t *testing.T) {
	const limit = time.Second
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprint(waits), func(t *testing.T) {
			v, p := newValve(1), newPeer(1)
			bubble(t, v, datagram.Options{Waits: waits, WriteTimeout: limit}, func(t *testing.T, sd *datagram.Sender) {
				sd.Cork()
				for _, data := range []string{"1", "2", "3"} {
					cork(t, sd, p, data)
				}
				sd.Uncork()
				synctest.Wait()
				if v.expect(t, 1, "1"); !waits {
					p.expect(t, 1, 2, 0)
					return
				}
				p.expect(t, 1, 0, 0)
				v.give(1)
				synctest.Wait()
				v.expect(t, 2, "1", "2")
				<-time.After(limit - 1)
				synctest.Wait()
				p.expect(t, 2, 0, 0)
				<-time.After(1)
				synctest.Wait()
				p.expect(t, 2, 1, 0)
			})
		})
	}
	t.Run("bound", func(t *testing.T) {
		v, p := newValve(0), newPeer(1)
		bubble(t, v, datagram.Options{Waits: true}, func(t *testing.T, sd *datagram.Sender) {
			for round := range 3 {
				sd.Cork()
				for range 10 {
					cork(t, sd, p, strings.Repeat("x", 50_000))
				}
				sd.Uncork()
				synctest.Wait()
				p.expect(t, 250_000*round, 5*(round+1), 0) // 250,000 bytes wait
				v.give(5)
				synctest.Wait()
			}
		})
	})
}

// An error of one datagram affects that datagram alone. On a connected socket the error may be the answer to an earlier one, and then no
// datagram is lost.
func TestPourErrors(t *testing.T) {
	refused := &udp.Error{Op: "write", Err: os.NewSyscallError("sendmmsg", syscall.ECONNREFUSED)}
	for _, connected := range []bool{false, true} {
		t.Run(fmt.Sprint(connected), func(t *testing.T) {
			v, a, b := newValve(10), newPeer(1), newPeer(2)
			v.failures = []error{refused}
			bubble(t, v, datagram.Options{Connected: connected}, func(t *testing.T, sd *datagram.Sender) {
				sd.Cork()
				cork(t, sd, a, "1")
				cork(t, sd, b, "2")
				sd.Uncork()
				b.expect(t, 1, 0, 0)
				if connected {
					v.expect(t, 1, "1", "2")
					a.expect(t, 1, 0, 0)
				} else {
					v.expect(t, 1, "2")
					a.expect(t, 0, 1, 0)
				}
			})
		})
	}
}

// TrySend reports whether there was room, and does not overtake waiting datagrams.
func TestTrySend(t *testing.T) {
	v, p := newValve(1), newPeer(1)
	bubble(t, v, datagram.Options{}, func(t *testing.T, sd *datagram.Sender) {
		for _, want := range []bool{true, false} {
			if sent, err := sd.TrySend(p, []byte("x")); sent != want || err != nil {
				t.Errorf("sent: %t, %v", sent, err)
			}
		}
		p.expect(t, 1, 0, 0)
		v.failures = []error{syscall.EMSGSIZE}
		if sent, err := sd.TrySend(p, []byte("y")); sent || !datagram.TooLarge(err) {
			t.Errorf("sent: %t, %v", sent, err)
		}
		result := sd.Wait(p, []byte("z"), 0)
		synctest.Wait()
		if sent, err := sd.TrySend(p, []byte("before z")); sent || err != nil {
			t.Errorf("sent: %t, %v", sent, err)
		}
		sd.Cork()
		if copied, _ := sd.TryCork(p, []byte("before z")); copied {
			t.Error("copied although a datagram waits")
		}
		v.give(1)
		if err := testwait.Receive(t, result); err != nil {
			t.Error(err)
		}
		v.expect(t, 2, "x", "z")
	})
}

// Waiting datagrams get room in their order, and each caller gets its result: nil, the deadline, the end of its peer, or the end of the socket.
func TestWait(t *testing.T) {
	v, a, b := newValve(0), newPeer(1), newPeer(2)
	bubble(t, v, datagram.Options{}, func(t *testing.T, sd *datagram.Sender) {
		began := time.Now()
		first := sd.Wait(a, []byte("1"), 0)
		brief := sd.Wait(a, []byte("brief"), time.Second)
		second := sd.Wait(b, []byte("2"), time.Hour)
		ended := sd.Wait(a, []byte("ended"), 0)
		closed := sd.Wait(b, []byte("closed"), 0)
		if err := testwait.Receive(t, brief); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		v.give(2)
		for _, result := range []<-chan error{first, second} {
			if err := testwait.Receive(t, result); err != nil {
				t.Error(err)
			}
		}
		v.expect(t, 2, "1", "2")
		a.end()
		sd.CheckEnded()
		if err := testwait.Receive(t, ended); !errors.Is(err, datagram.ErrEnded) {
			t.Error(err)
		}
		synctest.Wait()
		if len(closed) != 0 {
			t.Error("the end of one peer was told another")
		}
		v.Close()
		if err := testwait.Receive(t, closed); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		v.expect(t, 2, "1", "2")
		a.expect(t, 1, 0, 0) // the waiting caller gets the result, so Dropped is not called
		b.expect(t, 1, 0, 0)
	})
}

// TryHold takes one datagram although there is no room. A peer with more to send gets one call of Writable when there is room.
func TestLate(t *testing.T) {
	v, a, b := newValve(0), newPeer(1), newPeer(2)
	bubble(t, v, datagram.Options{}, func(t *testing.T, sd *datagram.Sender) {
		if !sd.TryHold(a, []byte("a"), false, 0) {
			t.Error("the first was not taken")
		}
		for range 3 {
			if sd.TryHold(b, []byte("b"), false, 0) {
				t.Error("another was taken")
			}
		}
		synctest.Wait()
		b.expect(t, 0, 0, 0)
		v.give(1)
		synctest.Wait()
		v.expect(t, 1, "a")
		a.expect(t, 1, 0, 0) // the peer had no more to send
		b.expect(t, 0, 0, 1)

		if !sd.TryHold(b, []byte("b"), true, time.Second) {
			t.Error("it was not taken, and nobody waits")
		}
		<-time.After(time.Second - 1)
		synctest.Wait()
		b.expect(t, 0, 0, 1)
		<-time.After(1)
		synctest.Wait()
		b.expect(t, 0, 1, 2)
	})
}

// On a socket that cannot send without waiting the caller waits, for its limit, whatever deadline the last call has left behind.
func TestSendAndWait(t *testing.T) {
	v, p := newValve(1), newPeer(1)
	v.singly = true
	bubble(t, v, datagram.Options{}, func(t *testing.T, sd *datagram.Sender) {
		sd.Cork()
		if copied, _ := sd.TryCork(p, []byte("x")); copied {
			t.Error("copied")
		}
		sd.CheckEnded()
		if err := sd.SendAndWait(p, []byte("x"), time.Second); err != nil {
			t.Error(err)
		}
		began := time.Now()
		if err := sd.SendAndWait(p, []byte("y"), time.Second); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		for _, end := range []func(){func() {}, p.end} {
			result := make(chan error, 1)
			go func() { result <- sd.SendAndWait(p, []byte("z"), 0) }()
			synctest.Wait()
			end()
			sd.CheckEnded()
			synctest.Wait()
			if !p.Ended() {
				if len(result) != 0 {
					t.Error("a poke about another ended it")
				}
				v.give(1)
				if err := testwait.Receive(t, result); err != nil {
					t.Error(err)
				}
			} else if err := testwait.Receive(t, result); !errors.Is(err, datagram.ErrEnded) {
				t.Error(err)
			}
		}
		v.expect(t, 2, "x", "z")
		p.expect(t, 2, 0, 0)
	})
}
