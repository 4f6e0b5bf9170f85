package rpc_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluice-push/sluice/rpc"
)

const mostCredit = 1 << 30

func TestCredit(t *testing.T) {
	c := rpc.Credit{Messages: 2, Bytes: 10}
	for i, step := range []struct {
		more rpc.Credit // zero: take size
		size int
		ok   bool
		then rpc.Credit
	}{
		{rpc.Credit{}, 9, true, rpc.Credit{Messages: 1, Bytes: 1}},
		{rpc.Credit{}, 100, true, rpc.Credit{Messages: 0, Bytes: -99}}, // one message may exceed the bytes that are left
		{rpc.Credit{}, 0, false, rpc.Credit{Messages: 0, Bytes: -99}},
		{rpc.Credit{Messages: 1}, 0, true, rpc.Credit{Messages: 1, Bytes: -99}},
		{rpc.Credit{}, 0, false, rpc.Credit{Messages: 1, Bytes: -99}}, // no bytes
		{rpc.Credit{Bytes: 99}, 0, true, rpc.Credit{Messages: 1, Bytes: 0}},
		{rpc.Credit{}, 0, false, rpc.Credit{Messages: 1, Bytes: 0}},
		{rpc.Credit{Bytes: 1}, 0, true, rpc.Credit{Messages: 1, Bytes: 1}},
		{rpc.Credit{Messages: -1, Bytes: 1}, 0, false, rpc.Credit{Messages: 1, Bytes: 1}},
		{rpc.Credit{Messages: 1, Bytes: -1}, 0, false, rpc.Credit{Messages: 1, Bytes: 1}},
		{rpc.Credit{Messages: mostCredit, Bytes: 1}, 0, false, rpc.Credit{Messages: 1, Bytes: 1}},
		{rpc.Credit{Messages: 1, Bytes: mostCredit}, 0, false, rpc.Credit{Messages: 1, Bytes: 1}},
		{rpc.Credit{Messages: mostCredit - 1, Bytes: mostCredit - 1}, 0, true, rpc.Credit{Messages: mostCredit, Bytes: mostCredit}},
		{rpc.Credit{}, 0, true, rpc.Credit{Messages: mostCredit - 1, Bytes: mostCredit}},
	} {
		do := func() bool { return c.Add(step.more) }
		if step.more == (rpc.Credit{}) {
			do = func() bool { return c.Take(step.size) }
		}
		if ok := do(); ok != step.ok || c != step.then {
			t.Errorf("step %d: %t, %+v", i, ok, c)
		}
	}
}

func TestParseGrant(t *testing.T) {
	for _, c := range []rpc.Credit{{}, {Messages: 1}, {Bytes: 1}, {Messages: 128, Bytes: 256 << 10}, {Messages: mostCredit, Bytes: mostCredit}} {
		for _, id := range []int32{-1, 0, 1, 1<<31 - 1} {
			text := fmt.Sprint(id, " ", c.Text())
			if i, parsed, ok := rpc.ParseGrant(text); i != id || parsed != c || !ok {
				t.Errorf("%q is read as %d, %+v, %t", text, i, parsed, ok)
			}
		}
	}
	for _, bad := range []string{"", " ", "1", "1 2", "1 2 ", "1  2", "a 1 1", "1 a 1", "1 1 a", "2147483648 1 1", "1 -1 1", "1 1 -1", "1 1073741825 1", "1 1 1073741825", "1 1 1 "} {
		if _, _, ok := rpc.ParseGrant(bad); ok {
			t.Errorf("%q is a credit", bad)
		}
	}
}

// Whatever is sent and received, and however late credit arrives: what the sender may send never breaks the receiver's bound, no more waits than the
// window and one message, and the sender is not stuck when all was received.
func TestWindow(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // not a secret
		size := rpc.Credit{Messages: 1 + r.IntN(20), Bytes: 1 + r.IntN(1000)}
		largest := 1 + r.IntN(2000)
		w, sender := rpc.NewWindow(size), size
		var waiting []int       // sizes of messages
		var grants []rpc.Credit // on their way
		bytes, sent := 0, 0
		for range 500 {
			switch r.IntN(3) {
			case 0:
				n := r.IntN(largest)
				if !sender.Take(n) {
					break
				}
				if sent++; !w.Arrive(n) {
					t.Fatalf("seed %d: the receiver knows less credit than the sender", seed)
				}
				waiting = append(waiting, n)
				if bytes += n; len(waiting) > size.Messages || bytes >= size.Bytes+largest {
					t.Fatalf("seed %d: %d messages, %d bytes wait", seed, len(waiting), bytes)
				}
			case 1:
				if len(waiting) > 0 {
					grants = append(grants, w.Free(waiting[0]))
					bytes -= waiting[0]
					waiting = waiting[1:]
				}
			case 2:
				if len(grants) > 0 {
					if !sender.Add(grants[0]) {
						t.Fatalf("seed %d: the credit %+v is too much", seed, grants[0])
					}
					grants = grants[1:]
				}
			}
		}
		for _, n := range waiting {
			grants = append(grants, w.Free(n))
		}
		for _, more := range grants {
			sender.Add(more)
		}
		if sent == 0 || !sender.Take(0) {
			t.Errorf("seed %d: after %d messages the sender is stuck with %+v of %+v", seed, sent, sender, size)
		}
		if w := rpc.NewWindow(size); w.Arrive(size.Bytes) && w.Arrive(1) {
			t.Errorf("seed %d: more arrives than the window has", seed)
		}
	}
}

func TestMessages(t *testing.T) {
	var m rpc.Messages
	if _, ok := m.Take(); ok {
		t.Error("an empty queue has a message")
	}
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // not a secret
	for round := range 50 {
		var want [][]byte
		for i := range r.IntN(20) {
			body := bytes.Repeat([]byte{byte(i)}, r.IntN(100*round+1))
			m.Add(body)
			want = append(want, body)
		}
		for i := range want {
			if got, ok := m.Take(); !ok || !bytes.Equal(got, want[i]) {
				t.Fatalf("round %d: message %d has %d bytes, %t", round, i, len(got), ok)
			}
		}
		if _, ok := m.Take(); ok {
			t.Error("there is another message")
		}
		if m.Reset(); m.Cap() > 64<<10 {
			t.Errorf("%d bytes are kept", m.Cap())
		}
	}
}
