package nats_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker/nats"
)

// windowModel is a simple model of a window.
type windowModel struct {
	*rapid.T
	window            *nats.Window
	limit, perSubject int
	epoch             int
	offset            uint64
	sent              []string       // subjects of publications without an answer of the server
	stored            []*storedModel // acknowledged, in the present epoch
	followers         map[int]uint64 // the offset up to which each has got everything
	all               []*storedModel // ever acknowledged
	next              int            // follower
}

type storedModel struct {
	subject string
	offset  uint64
	called  int
	isLost  bool // the epoch changed before it was delivered
}

// under returns how many publications are pending, of a subject and in all.
func (m *windowModel) under(subject string) (n, total int) {
	for _, s := range m.sent {
		if s == subject {
			n++
		}
	}
	total = len(m.sent)
	for _, s := range m.stored {
		if !m.isDelivered(s) {
			total++
			if s.subject == subject {
				n++
			}
		}
	}
	return n, total
}

func (m *windowModel) isDelivered(s *storedModel) bool {
	for _, offset := range m.followers {
		if offset < s.offset {
			return false
		}
	}
	return true
}

// settle drops the delivered publications, and checks that the window did so.
func (m *windowModel) settle() {
	var rest []*storedModel
	for _, s := range m.stored {
		if !m.isDelivered(s) {
			rest = append(rest, s)
		}
	}
	m.stored = rest
	for _, s := range m.all {
		want := 1
		for _, r := range rest {
			if r == s {
				want = 0
			}
		}
		if s.isLost {
			want = 0
		}
		if s.called != want {
			m.Fatalf("for offset %d what follows was called %d times, want %d", s.offset, s.called, want)
		}
	}
	if _, total := m.under(""); m.window.Total() != total {
		m.Fatalf("%d places are taken, want %d", m.window.Total(), total)
	}
}

func (m *windowModel) enter(t *rapid.T) {
	subject := fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "subject"))
	n, total := m.under(subject)
	isRoom := total < m.limit && (m.perSubject == 0 || n < m.perSubject)
	if got := m.window.Enter(subject); got != isRoom {
		t.Fatalf("there is room: %t, want %t", got, isRoom)
	}
	if isRoom {
		m.sent = append(m.sent, subject)
	}
}

// answered chooses a publication without an answer, if there is one.
func (m *windowModel) answered(t *rapid.T) (subject string, ok bool) {
	if len(m.sent) == 0 {
		return "", false
	}
	i := rapid.IntRange(0, len(m.sent)-1).Draw(t, "which")
	subject = m.sent[i]
	m.sent = append(m.sent[:i:i], m.sent[i+1:]...)
	return subject, true
}

func (m *windowModel) refuse(t *rapid.T) {
	if subject, ok := m.answered(t); ok {
		m.window.Leave(subject)
	}
}

func (m *windowModel) acknowledge(t *rapid.T) {
	subject, ok := m.answered(t)
	if !ok {
		return
	}
	s := &storedModel{subject: subject}
	m.offset += uint64(rapid.IntRange(1, 3).Draw(t, "jump"))
	s.offset = m.offset
	if len(m.followers) > 0 && rapid.Bool().Draw(t, "delivered first") {
		for id := range m.followers {
			m.deliver(id, m.offset)
		}
	}
	epoch := m.epoch
	if rapid.IntRange(0, 9).Draw(t, "of an earlier life") == 0 {
		epoch, s.isLost = epoch-1, true
	} else {
		m.stored = append(m.stored, s)
	}
	m.all = append(m.all, s)
	m.window.Acknowledged(s.subject, push.Position{Epoch: fmt.Sprint(epoch), Offset: s.offset}, func() {
		if !m.isDelivered(s) {
			m.Fatalf("offset %d was not delivered to all", s.offset)
		}
		s.called++
	})
}

func (m *windowModel) deliver(id int, offset uint64) {
	m.followers[id] = offset
	m.window.Delivered(id, offset)
}

// follower chooses an attached follower, if there is one.
func (m *windowModel) follower(t *rapid.T) (id int, ok bool) {
	if len(m.followers) == 0 {
		return 0, false
	}
	ids := make([]int, 0, len(m.followers))
	for id := range m.next {
		if _, ok := m.followers[id]; ok {
			ids = append(ids, id)
		}
	}
	return rapid.SampledFrom(ids).Draw(t, "follower"), true
}

// TestWindow: in any order of events, no more publications are pending than allowed, all of them end, and the function for after a delivery is
// called once and not earlier.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &windowModel{
			T: t, limit: rapid.IntRange(1, 8).Draw(t, "limit"), perSubject: rapid.IntRange(0, 4).Draw(t, "per subject"),
			epoch: 1, followers: make(map[int]uint64),
		}
		m.window = nats.NewWindow(m.limit, m.perSubject)
		t.Repeat(map[string]func(*rapid.T){
			"enter":       m.enter,
			"acknowledge": m.acknowledge,
			"refuse":      m.refuse,
			"deliver": func(t *rapid.T) {
				if id, ok := m.follower(t); ok {
					m.deliver(id, rapid.Uint64Range(m.followers[id], max(m.followers[id], m.offset)).Draw(t, "offset"))
				}
			},
			"attach": func(*rapid.T) {
				m.followers[m.next] = m.offset
				m.window.Attach(m.next, m.offset)
				m.next++
			},
			"detach": func(t *rapid.T) {
				if id, ok := m.follower(t); ok {
					delete(m.followers, id)
					m.window.Detach(id)
				}
			},
			"reset": func(t *rapid.T) {
				for _, s := range m.stored {
					s.isLost = true
				}
				m.stored, m.epoch = nil, m.epoch+1
				m.window.Reset(fmt.Sprint(m.epoch))
			},
			"another history": func(t *rapid.T) {
				m.perSubject = rapid.IntRange(0, 4).Draw(t, "per subject")
				m.window.SetPerSubject(m.perSubject)
			},
			"": func(*rapid.T) { m.settle() },
		})
		for len(m.sent) > 0 {
			m.refuse(t)
		}
		for id := range m.followers {
			delete(m.followers, id)
			m.window.Detach(id)
		}
		m.settle()
		if m.window.Total() != 0 || m.window.Subjects() != 0 {
			t.Fatalf("%d places and %d subjects are left", m.window.Total(), m.window.Subjects())
		}
	})
}

// TestWindowWakes: a publisher that waits for room is woken when there is some, however that comes about.
func TestWindowWakes(t *testing.T) {
	stored := func(w *nats.Window) { w.Acknowledged("a", push.Position{Epoch: "1", Offset: 1}, nil) }
	for name, do := range map[string]func(w *nats.Window){
		"refused":   func(w *nats.Window) { w.Leave("a") },
		"stored":    func(w *nats.Window) { w.Detach(1); stored(w) },
		"delivered": func(w *nats.Window) { stored(w); w.Delivered(1, 1) },
		"detached":  func(w *nats.Window) { stored(w); w.Detach(1) },
		"reset":     func(w *nats.Window) { stored(w); w.Reset("2") },
		"widened":   func(w *nats.Window) { w.SetPerSubject(0) },
	} {
		t.Run(name, func(t *testing.T) {
			w := nats.NewWindow(5, 1)
			w.Attach(1, 0)
			if !w.Enter("a") {
				t.Fatal("there is no room from the start")
			}
			wait := w.Waiting("a")
			do(w)
			select {
			case <-wait:
			default:
				t.Error("who waits was not woken")
			}
			if !w.Enter("a") {
				t.Error("there is no room")
			}
		})
	}
}
