package pushtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// checkSize: the newest publications of each channel are stored, however many are published to others.
func checkSize(s *suite) {
	s.open("h", push.Stream, push.History{Size: 4})
	var a []broker.Message
	quiet := s.set("h:quiet", "", "only one")
	for i := range 10 {
		a = append(a, s.set("h:a", "", fmt.Sprint(i)))
		s.set("h:b", "", fmt.Sprint(i))
	}
	h := s.expectLoad("h:a", a[6:]...)
	s.floorBetween(h, a[5].Offset, a[6].Offset-1)
	h = s.expectLoad("h:quiet", quiet)
	s.floorBetween(h, 0, quiet.Offset-1)
}

// checkBytes: the stored publications of a channel fit its bytes, and are the newest.
func checkBytes(s *suite) {
	s.open("h", push.Stream, push.History{Bytes: 4000})
	var all []broker.Message
	for i := range 60 {
		all = append(all, s.set("h:a", "key", fmt.Sprint(i)+strings.Repeat("x", 100+i)))
	}
	got, _ := s.load("h:a")
	if len(got) < 5 {
		s.Fatalf("only %d publications of %d bytes were kept in 4000", len(got), all[0].Size())
	}
	var sum int
	for i := range got {
		sum += got[i].Size()
	}
	if sum > 4000 {
		s.Errorf("%d bytes were kept in 4000", sum)
	}
	h := s.expectLoad("h:a", all[len(all)-len(got):]...)
	s.floorBetween(h, all[len(all)-len(got)-1].Offset, got[0].Offset-1)
}

// checkAge: publications that are too old are not shown any more, and others are.
func checkAge(s *suite) {
	if s.harness.Advance == nil {
		s.open("h", push.Stream, push.History{Age: time.Second})
		old := s.set("h:a", "", "old")
		s.eventually("the age passes", func() bool {
			got, h := s.load("h:a")
			return len(got) == 0 && h.Floor >= old.Offset
		})
		s.expectLoad("h:a", s.set("h:a", "", "new"))
		return
	}
	s.open("h", push.Stream, push.History{Age: 10 * time.Minute})
	old := s.set("h:a", "", "old")
	s.advance(6 * time.Minute)
	young := s.set("h:a", "", "young")
	s.expectLoad("h:a", old, young)
	s.advance(6 * time.Minute)
	s.floorBetween(s.expectLoad("h:a", young), old.Offset, young.Offset-1)
	s.advance(6 * time.Minute)
	h := s.expectLoad("h:a")
	s.floorBetween(h, young.Offset, h.Head)
	// A channel without publications may be dropped, but its floor must not sink.
	for i := range 100 {
		s.set(fmt.Sprintf("h:%d", i), "", "x")
	}
	h = s.expectLoad("h:a")
	s.floorBetween(h, young.Offset, h.Head)
	again := s.set("h:a", "", "again")
	s.floorBetween(s.expectLoad("h:a", again), young.Offset, again.Offset-1)
}

// checkUnlimited: without a limit everything is stored, and every position is usable.
func checkUnlimited(s *suite) {
	s.open("h", push.Stream, push.History{})
	var all []broker.Message
	for i := range 300 {
		all = append(all, s.set("h:a", "", fmt.Sprint(i)))
	}
	h := s.expectLoad("h:a", all...)
	s.floorBetween(h, 0, all[0].Offset-1)
	if got, h := s.load("h:never"); len(got) != 0 || h.Floor > h.Head || h.Head < all[299].Offset {
		s.Errorf("of a channel that never was %d publications were loaded, between %d and %d", len(got), h.Floor, h.Head)
	}
}

// floorBetween fails the check if the floor promises too much or too little.
func (s *suite) floorBetween(h broker.History, low, high uint64) {
	s.Helper()
	if h.Floor < low || h.Floor > high {
		s.Errorf("the floor is %d, want %d to %d", h.Floor, low, high)
	}
}

// checkRandom publishes, removes, clears, advances the clock and loads at random, and compares the results with all acknowledged publications.
func checkRandom(s *suite, mode push.Mode) {
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, uint64(mode))) //nolint:gosec // to be repeatable
		m := &model{suite: s, mode: mode, namespace: fmt.Sprintf("r%d", seed)}
		m.history.Size = []int{0, 1, 3, 10}[random.IntN(4)]
		if mode == push.Stream {
			m.history.Bytes = []int64{0, 0, 400}[random.IntN(3)]
		}
		if s.harness.Advance != nil {
			m.history.Age = []time.Duration{0, 10 * time.Minute}[random.IntN(2)]
		}
		s.open(m.namespace, mode, m.history)
		m.epoch = s.head(m.namespace).Epoch
		for range 250 {
			m.step(random)
		}
		for i := range randomChannels {
			m.load(m.channel(i))
		}
		m.load(m.namespace + ":never")
	}
}

const randomChannels = 5

// model contains all acknowledged publications of a namespace, and computes the allowed results of a load.
type model struct {
	*suite
	mode      push.Mode
	history   push.History
	namespace string
	epoch     string
	all       []dated
	elapsed   time.Duration // by how much the clock was advanced
	evicting  bool          // a row was removed, or a channel cleared
}

// dated is a message with the time at which it was published.
type dated struct {
	broker.Message
	at time.Duration
}

func (m *model) channel(i int) string { return fmt.Sprintf("%s:%d", m.namespace, i) }

// step performs one random operation.
func (m *model) step(random *rand.Rand) {
	m.Helper()
	channel := m.channel(random.IntN(randomChannels))
	p := push.Publication{Key: fmt.Sprint(random.IntN(6)), Data: []byte(strings.Repeat("x", random.IntN(100)))}
	switch dice := random.IntN(100); {
	case dice < 12:
		m.load(channel)
		return
	case dice < 18 && m.history.Age > 0:
		d := time.Duration(random.Int64N(int64(4 * time.Minute)))
		m.advance(d)
		m.elapsed += d
		return
	case dice < 20:
		p = push.Publication{Op: push.Clear}
	case dice < 45 && m.mode != push.Stream:
		p.Op, p.Data = push.Remove, nil
	}
	m.evicting = m.evicting || p.Op != push.Set
	m.all = append(m.all, dated{m.publish(channel, p), m.elapsed})
}

// load loads a channel. It fails the check for publications that must not be there or are missing, and for a floor below one that may be
// missing.
func (m *model) load(channel string) {
	m.Helper()
	got, h := m.suite.load(channel)
	if h.Epoch != m.epoch || len(m.all) > 0 && h.Head < m.all[len(m.all)-1].Offset || h.Floor > h.Head {
		m.Errorf("loaded between %d and %d in epoch %q", h.Floor, h.Head, h.Epoch)
	}
	life := m.life(channel)
	shown := make(map[uint64]*push.Publication)
	for i := range got {
		if i > 0 && got[i].Offset <= got[i-1].Offset || got[i].Offset > h.Head {
			m.Errorf("offset %d was loaded after %d, the head is %d", got[i].Offset, got[max(i-1, 0)].Offset, h.Head)
		}
		shown[got[i].Offset] = &got[i]
	}
	valid := 0
	for i := range life.kept {
		k := &life.kept[i]
		switch {
		case shown[k.Offset] != nil && same(shown[k.Offset], &k.Publication):
			valid++
			if k.mayGo && m.history.Age > 0 && m.elapsed-k.at > m.history.Age+time.Minute {
				m.Errorf("%s is shown at the age of %v", describe(&k.Message), m.elapsed-k.at)
			}
		case !k.mayGo:
			m.Errorf("%s is missing", describe(&k.Message))
		case k.Offset > h.Floor:
			m.Errorf("%s is missing above the floor %d", describe(&k.Message), h.Floor)
		case k.must:
			m.Errorf("%s is missing, though the history allows it", describe(&k.Message))
		}
	}
	if valid != len(got) {
		m.Errorf("%d of %d publications loaded are not what was acknowledged, or were superseded", len(got)-valid, len(got))
	}
	m.bounds(got)
	if h.Floor < life.cleared {
		m.Errorf("the floor is %d, but the channel was cleared at %d", h.Floor, life.cleared)
	}
	isPromised := m.mode == push.Stream || !m.evicting && m.history.Age == 0
	if isPromised && len(got) > 0 && h.Floor >= got[0].Offset {
		m.Errorf("the floor is %d, but %d is still there", h.Floor, got[0].Offset)
	}
}

// bounds fails the check if more is shown than the history allows.
func (m *model) bounds(got []push.Publication) {
	m.Helper()
	count, size := 0, int64(0)
	for i := range got {
		if m.mode == push.Stream || got[i].Op == push.Remove {
			count++
			size += int64(got[i].Size())
		}
	}
	if m.history.Size > 0 && count > m.history.Size || m.history.Bytes > 0 && size > m.history.Bytes {
		m.Errorf("%d publications of %d bytes are shown, the history is %+v", count, size, m.history)
	}
}

// life contains the publications of a channel since its last clear.
type life struct {
	cleared uint64
	kept    []candidate // all publications of a stream; otherwise the newest of each key
}

// candidate is a publication that a load may show.
type candidate struct {
	dated
	mayGo bool // it may have been evicted, because it is no live row
	must  bool // the history still has room for it
}

func (m *model) life(channel string) life {
	var out life
	seen := make(map[string]bool)
	after := 0 // how many evictable ones follow
	for i := len(m.all) - 1; i >= 0; i-- {
		d := m.all[i]
		if d.Channel != channel {
			continue
		}
		if d.Op == push.Clear {
			out.cleared = d.Offset
			return out
		}
		c := candidate{dated: d, mayGo: m.mode == push.Stream || d.Op == push.Remove}
		isRoom := m.history.Size == 0 || after < m.history.Size
		isYoung := m.history.Age == 0 || m.elapsed-d.at < m.history.Age-time.Minute
		isSmall := m.history.Bytes == 0 || after == 0 && int64(d.Size())*4 < m.history.Bytes
		c.must = isRoom && isYoung && isSmall
		if c.mayGo {
			after++
		}
		key := d.Key
		if m.mode == push.Value {
			key = ""
		}
		if m.mode == push.Stream || !seen[key] {
			out.kept = append(out.kept, c)
		}
		seen[key] = true
	}
	return out
}
