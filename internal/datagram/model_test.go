package datagram_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/internal/datagram"
	"github.com/sluice-push/sluice/internal/testwait"
)

// history is a run of a Sender with one peer, used as sessions use it. Datagrams have ascending numbers.
type history struct {
	rnd     *rand.Rand
	v       *valve
	sd      *datagram.Sender
	p       *peer
	next    int
	refused int
	results []<-chan error
}

const historyLimit = 100 * time.Millisecond

// send corks the next datagram, or tries to send it. If neither works, it calls otherwise.
func (h *history) send(t *testing.T, otherwise func(data []byte)) {
	data := []byte(strconv.Itoa(h.next))
	h.next++
	copied, full := h.sd.TryCork(h.p, data)
	if full {
		h.sd.Flush()
	}
	if copied {
		return
	}
	sent, err := h.sd.TrySend(h.p, data)
	if err != nil {
		t.Error(err)
	}
	if !sent {
		otherwise(data)
	}
}

// step does one random operation.
func (h *history) step(t *testing.T) {
	switch h.rnd.IntN(12) {
	case 0:
		h.sd.Cork()
	case 1:
		h.sd.Uncork()
	case 2:
		h.sd.Tick()
	case 3:
		h.sd.CheckEnded()
	case 4, 5:
		h.v.give(h.rnd.IntN(4))
	case 6:
		<-time.After(time.Duration(h.rnd.IntN(5)) * historyLimit / 4)
	case 7, 8:
		h.send(t, func(data []byte) { h.results = append(h.results, h.sd.Wait(h.p, data, historyLimit)) })
	case 9:
		h.send(t, func([]byte) { h.refused++ })
	case 10:
		h.sd.Flush()
		h.send(t, func(data []byte) {
			if !h.sd.TryHold(h.p, data, h.rnd.IntN(2) == 0, historyLimit) {
				h.refused++
			}
		})
	case 11:
		synctest.Wait()
	}
}

// check fails unless every datagram has one result, and the sent ones are in order.
func (h *history) check(t *testing.T) {
	failed := 0
	for _, result := range h.results {
		if err := testwait.Receive(t, result); err != nil {
			failed++
		}
	}
	told := h.p.look()
	if ended := len(h.v.got) + told.dropped + failed + h.refused; ended != h.next {
		t.Errorf("of %d datagrams %d were sent, %d dropped, %d given up, %d refused",
			h.next, len(h.v.got), told.dropped, failed, h.refused)
	}
	last, bytes := -1, 0
	for _, data := range h.v.got {
		n, err := strconv.Atoi(data)
		if err != nil || n <= last {
			t.Errorf("%q was sent after %d: %v", data, last, err)
		}
		last = n
		bytes += len(data)
	}
	if bytes != told.sent {
		t.Errorf("%d bytes were sent, and %d told", bytes, told.sent)
	}
	if h.p.wants {
		t.Error("Writable is still owed")
	}
}

// Whatever happens, every datagram has one result, sent datagrams are in order, and every promised call of Writable comes.
func TestSenderHistories(t *testing.T) {
	for seed := range uint64(300) {
		v, p := newValve(0), newPeer(1)
		bubble(t, v, datagram.Options{Waits: seed%2 == 0, WriteTimeout: historyLimit}, func(t *testing.T, sd *datagram.Sender) {
			h := &history{rnd: rand.New(rand.NewPCG(seed, 1)), v: v, sd: sd, p: p}
			for range 100 {
				h.step(t)
			}
			sd.Uncork()
			<-time.After(2 * historyLimit)
			synctest.Wait()
			h.check(t)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// An Inbox is a list whose elements are taken from the front.
func TestInbox(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var copies datagram.Copies
	var in datagram.Inbox
	var model []string
	for i := range 5000 {
		data := string(make([]byte, rnd.IntN(2)*3000)) + strconv.Itoa(i) // also larger than the memory that is kept
		switch rnd.IntN(4) {
		case 0:
			in.PutFirst(copies.Get([]byte(data)))
			model = slices.Insert(model, 0, data)
		case 1:
			in.Put(copies.Get([]byte(data)))
			model = append(model, data)
		default:
			l := in.Take()
			if len(model) == 0 {
				if l != nil {
					t.Fatal("something was taken out of nothing")
				}
				break
			}
			if got := string(l.Buffer.B[:l.N]); got != model[0] {
				t.Fatalf("took %q, want %q", got, model[0])
			}
			model = model[1:]
			copies.Put(l)
		}
		size := 0
		for _, data := range model {
			size += len(data)
		}
		if in.Count != len(model) || in.Size != size {
			t.Fatalf("%d copies of %d bytes, want %d of %d", in.Count, in.Size, len(model), size)
		}
	}
}
