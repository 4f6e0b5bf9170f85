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
	"github.com/sluice-push/sluice/transport"
)

// gather gathers a datagram, which has to be possible.
func gather(t testing.TB, sd *datagram.Sender, p datagram.Peer, data string) (full bool) {
	t.Helper()
	gathered, full := sd.Gather(p, []byte(data))
	if !gathered {
		t.Errorf("%.10q was not gathered", data)
	}
	return full
}

// What is gathered is copied, and leaves in one call, in order, each to its peer.
func TestGathered(t *testing.T) {
	v, a, b := newValve(10), newPeer(1), newPeer(2)
	bubble(t, v, datagram.Options{}, func(t *testing.T, sd *datagram.Sender) {
		if gathered, _ := sd.Gather(a, []byte("early")); gathered {
			t.Error("gathered without a cork")
		}
		sd.Cork()
		data := []byte("one")
		if gathered, full := sd.Gather(a, data); !gathered || full {
			t.Error("not gathered, or full at once")
		}
		copy(data, "xxx")
		gather(t, sd, b, "two")
		gather(t, sd, a, "three")
		v.expect(t, 0)
		if !sd.Holds() {
			t.Error("it holds nothing")
		}
		sd.Uncork()
		v.expect(t, 1, "one", "two", "three")
		if v.to[0] != a.at || v.to[1] != b.at || v.to[2] != a.at {
			t.Errorf("sent to %v", v.to)
		}
		a.expect(t, 8, 0, 0)
		b.expect(t, 3, 0, 0)
		if gathered, _ := sd.Gather(a, []byte("late")); gathered || sd.Holds() {
			t.Error("gathered after the cork")
		}
	})
}

// Who gathers much is told to pour: for the number of datagrams, or for their bytes. Larger ones than the memory are gathered too.
func TestGatheredMany(t *testing.T) {
	v, p := newValve(1000), newPeer(1)
	bubble(t, v, datagram.Options{}, func(t *testing.T, sd *datagram.Sender) {
		sd.Cork()
		for i := range 64 {
			if full := gather(t, sd, p, "x"); full != (i == 63) {
				t.Errorf("full at %d: %t", i, full)
			}
		}
		sd.Pour()
		if len(v.got) != 64 || v.calls != 1 {
			t.Errorf("%d datagrams in %d calls", len(v.got), v.calls)
		}
		long, huge := strings.Repeat("l", memory-1000), strings.Repeat("h", 3*memory)
		if !gather(t, sd, p, long) || !gather(t, sd, p, huge) {
			t.Error("not full")
		}
		sd.Uncork()
		if !slices.Equal(v.got[64:], []string{long, huge}) || v.calls != 2 {
			t.Errorf("%d datagrams in %d calls", len(v.got), v.calls)
		}
	})
}

// Look bounds how long a datagram is gathered: what it sees twice is sent.
func TestLook(t *testing.T) {
	v, p := newValve(10), newPeer(1)
	bubble(t, v, datagram.Options{}, func(t *testing.T, sd *datagram.Sender) {
		sd.Cork()
		if sd.Look() {
			t.Error("it saw something in nothing")
		}
		gather(t, sd, p, "x")
		if !sd.Look() {
			t.Error("it saw nothing")
		}
		v.expect(t, 0)
		if !sd.Look() {
			t.Error("it saw nothing")
		}
		v.expect(t, 1, "x")
		if sd.Look() {
			t.Error("it saw something after all was sent")
		}
	})
}

// What was gathered and finds no room waits, in order, up to a bound and for so long, or is dropped, as the options say.
func TestGatheredWithoutRoom(t *testing.T) {
	const limit = time.Second
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprint(waits), func(t *testing.T) {
			v, p := newValve(1), newPeer(1)
			bubble(t, v, datagram.Options{Waits: waits, WriteTimeout: limit}, func(t *testing.T, sd *datagram.Sender) {
				sd.Cork()
				for _, data := range []string{"1", "2", "3"} {
					gather(t, sd, p, data)
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
					gather(t, sd, p, strings.Repeat("x", 50_000))
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

// An error of one datagram costs that one. Of a connected socket it may be what came back for an earlier one, and costs none.
func TestPourErrors(t *testing.T) {
	refused := &transport.PacketError{Op: "write", Err: os.NewSyscallError("sendmmsg", syscall.ECONNREFUSED)}
	for _, connected := range []bool{false, true} {
		t.Run(fmt.Sprint(connected), func(t *testing.T) {
			v, a, b := newValve(10), newPeer(1), newPeer(2)
			v.failures = []error{refused}
			bubble(t, v, datagram.Options{Connected: connected}, func(t *testing.T, sd *datagram.Sender) {
				sd.Cork()
				gather(t, sd, a, "1")
				gather(t, sd, b, "2")
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

// Who tries is told whether there was room, and does not overtake those who wait.
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
		if gathered, _ := sd.Gather(p, []byte("before z")); gathered {
			t.Error("gathered although somebody waits")
		}
		v.give(1)
		if err := testwait.Receive(t, result); err != nil {
			t.Error(err)
		}
		v.expect(t, 2, "x", "z")
	})
}

// Those who wait get room in their order, and each is told how it ended: sent, given up in time, its peer's end, or the socket's.
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
		sd.Poke()
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
		a.expect(t, 1, 0, 0) // who waits is told, and counts for himself
		b.expect(t, 1, 0, 0)
	})
}

// One frame is taken beyond what there is room for; and who has more is told when there is room, once.
func TestLate(t *testing.T) {
	v, a, b := newValve(0), newPeer(1), newPeer(2)
	bubble(t, v, datagram.Options{}, func(t *testing.T, sd *datagram.Sender) {
		if !sd.Late(a, []byte("a"), false, 0) {
			t.Error("the first was not taken")
		}
		for range 3 {
			if sd.Late(b, []byte("b"), false, 0) {
				t.Error("another was taken")
			}
		}
		synctest.Wait()
		b.expect(t, 0, 0, 0)
		v.give(1)
		synctest.Wait()
		v.expect(t, 1, "a")
		a.expect(t, 1, 0, 0) // it had no more
		b.expect(t, 0, 0, 1)

		if !sd.Late(b, []byte("b"), true, time.Second) {
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

// A socket that cannot try sends while the caller waits, for so long, and whatever deadline the last one has left behind.
func TestSendAndWait(t *testing.T) {
	v, p := newValve(1), newPeer(1)
	v.singly = true
	bubble(t, v, datagram.Options{}, func(t *testing.T, sd *datagram.Sender) {
		sd.Cork()
		if gathered, _ := sd.Gather(p, []byte("x")); gathered {
			t.Error("gathered")
		}
		sd.Poke()
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
			sd.Poke()
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
