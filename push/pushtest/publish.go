package pushtest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// keyed publishes with an idempotency key.
func (s *suite) keyed(channel, data, key string) push.Position {
	s.Helper()
	p := push.Publication{Data: []byte(data)}
	pos, err := s.broker.Publish(s.ctx, channel, p, broker.PublishOptions{IdempotencyKey: key})
	s.must("publish with a key", err)
	return pos
}

// checkIdempotency: if a key was used on a channel, publishing with it returns the first position and stores nothing. On another channel it is
// another key.
func checkIdempotency(s *suite) {
	s.open("i", push.Stream, push.History{})
	r := newRecorder()
	s.attach("i", r)
	keys := []string{"k", "K", "k ", "k.*>/\\", "ключ", strings.Repeat("long", 60), "a\nb"}
	var want []broker.Message
	for _, key := range keys {
		for _, channel := range []string{"i:1", "i:2", "i:1.k"} {
			data := channel + " " + key
			pos := s.keyed(channel, data, key)
			m := broker.Message{Channel: channel, Publication: push.Publication{Offset: pos.Offset, Data: []byte(data)}}
			want = append(want, m)
			if again := s.keyed(channel, "something else", key); again != pos {
				s.Errorf("key %q on %s again answers %v, want %v", key, channel, again, pos)
			}
		}
	}
	plain := s.set("i:1", "", "no key")
	twice := s.set("i:1", "", "no key")
	want = append(want, plain, twice)
	if again := s.keyed("i:1", "late", "k"); again.Offset != want[0].Offset {
		s.Errorf("the first key again answers %d, want %d", again.Offset, want[0].Offset)
	}
	end := s.set("i:3", "", "end")
	r.awaitOffset(s, end.Offset)
	r.expect(s, append(want, end))
	s.expectLoad("i:1", slices.DeleteFunc(want, func(m broker.Message) bool { return m.Channel != "i:1" })...)
}

// checkIdempotencyConcurrent: of several concurrent publishes with one key, one is stored, and all return its position.
func checkIdempotencyConcurrent(s *suite) {
	s.open("i", push.Stream, push.History{})
	for round := range 10 {
		channel := fmt.Sprintf("i:%d", round)
		var mu sync.Mutex
		positions := make(map[push.Position]int)
		s.concurrently(8, func(int) error {
			p := push.Publication{Data: []byte("x")}
			pos, err := s.broker.Publish(s.ctx, channel, p, broker.PublishOptions{IdempotencyKey: "key"})
			mu.Lock()
			defer mu.Unlock()
			positions[pos]++
			return err
		})
		got, _ := s.load(channel)
		if len(positions) != 1 || len(got) != 1 || positions[push.Position{Epoch: s.head("i").Epoch, Offset: got[0].Offset}] != 8 {
			s.Fatalf("round %d: %d publications stored, the answers were %v", round, len(got), positions)
		}
	}
}

// checkIdempotencyWindow: a key is remembered for five minutes after it was stored, and not for much longer.
func checkIdempotencyWindow(s *suite) {
	s.open("i", push.Stream, push.History{})
	first := s.keyed("i:1", "1", "key")
	s.advance(4*time.Minute + 50*time.Second)
	if again := s.keyed("i:1", "2", "key"); again != first {
		s.Errorf("the key answers %v within five minutes, want %v", again, first)
	}
	s.advance(time.Hour)
	second := s.keyed("i:1", "3", "key")
	if second.Offset <= first.Offset {
		s.Errorf("the key answers %v after an hour, the first time it was %v", second, first)
	}
	if got, _ := s.load("i:1"); len(got) != 2 {
		s.Errorf("%d publications were stored, want 2", len(got))
	}
}

// checkPositions: publish, attach, head and load return the same epoch and the same sequence.
func checkPositions(s *suite) {
	s.open("p", push.Stream, push.History{})
	empty := s.head("p")
	if empty.Epoch == "" {
		s.Errorf("the epoch is empty")
	}
	var last push.Position
	for i := range 20 {
		pos, err := s.broker.Publish(s.ctx, fmt.Sprintf("p:%d", i%3), push.Publication{Offset: 999, Time: 1}, broker.PublishOptions{})
		s.must("publish", err)
		if pos.Epoch != empty.Epoch || pos.Offset <= last.Offset || pos.Offset <= empty.Offset {
			s.Errorf("published at %v after %v, having begun at %v", pos, last, empty)
		}
		last = pos
	}
	if head := s.head("p"); head != last {
		s.Errorf("the head is %v, %v was published last", head, last)
	}
	r := newRecorder()
	if start := s.attach("p", r).Start(); start != last {
		s.Errorf("attached from %v, %v was published last", start, last)
	}
	if _, h := s.load("p:0"); h.Epoch != last.Epoch || h.Head != last.Offset {
		s.Errorf("loaded up to %d in epoch %q, %v was published last", h.Head, h.Epoch, last)
	}
	s.open("other", push.Stream, push.History{})
	if head := s.head("p"); head != last {
		s.Errorf("the head is %v after another namespace was opened, want %v", head, last)
	}
}

// checkRestart: a restart keeps everything.
func checkRestart(s *suite) {
	openAll := func() {
		s.open("s", push.Stream, push.History{Size: 3})
		s.open("t", push.Table, push.History{Size: 3})
	}
	openAll()
	var all []broker.Message
	for i := range 5 {
		all = append(all, s.set("s:1", "", fmt.Sprint(i)))
	}
	keyed := s.keyed("s:2", "x", "key")
	row, gone := s.set("t:1", "a", "1"), s.remove("t:1", "b")
	head, floor := s.head("s"), s.expectLoad("s:1", all[2:]...).Floor
	s.close()
	s.broker = newInterested(s.harness.Reopen())
	openAll()
	if again := s.head("s"); again != head {
		s.Errorf("the head is %v after a restart, want %v", again, head)
	}
	s.floorBetween(s.expectLoad("s:1", all[2:]...), floor, all[2].Offset-1)
	s.expectLoad("t:1", row, gone)
	if again := s.keyed("s:2", "x", "key"); again != keyed {
		s.Errorf("the key answers %v after a restart, want %v", again, keyed)
	}
	if other := s.keyed("s:3", "x", "key"); other.Offset <= head.Offset {
		s.Errorf("the key of another channel answers %v after a restart, the head was %v", other, head)
	}
	if next := s.set("s:1", "", "next"); next.Offset <= head.Offset {
		s.Errorf("published at %d after a restart, the head was %v", next.Offset, head)
	}
}

// checkLostStore: if the store was lost, the epoch changes.
func checkLostStore(s *suite) {
	s.open("s", push.Stream, push.History{})
	s.set("s:1", "", "lost")
	old := s.head("s")
	s.close()
	s.broker = newInterested(s.harness.Recreate())
	s.open("s", push.Stream, push.History{})
	if head := s.head("s"); head.Epoch == old.Epoch {
		s.Errorf("the head is %v in a new store, and was %v in the old one", head, old)
	}
	next := s.set("s:1", "", "new")
	s.expectLoad("s:1", next)
}

// names are valid names that have a special meaning to some store.
var names = []string{
	"a b", " ", "a.b", ".", "..", "a..b", "*", ">", "a.>", "a/b", "/", "\\", "a:b", ":", "%", "%2E", "_", "__", "=", "$JS", "#", "?",
	"A", "a", "ü", "u\u0308", "日本", "😀", "\"q\"", "'", "{x}", "\u00a0", "\u2028", "~",
}

// checkNames: channels and keys may have any valid name, and different names are never mixed up.
func checkNames(s *suite) {
	s.open("n", push.Table, push.History{})
	s.open("", push.Table, push.History{})
	r := newRecorder()
	s.attach("n", r)
	keys := append([]string{"", strings.Repeat("k", push.MaxKeyLen), strings.Repeat("ü", push.MaxKeyLen/2)}, names...)
	channels := []string{"n:", "n:" + strings.Repeat("c", push.MaxChannelLen-2), "n:" + strings.Repeat(".", push.MaxChannelLen-2)}
	for _, name := range names {
		channels = append(channels, "n:"+name)
	}
	rows := make(map[string][]broker.Message)
	var all []broker.Message
	put := func(channel, key string) {
		m := s.set(channel, key, channel+"|"+key)
		rows[channel] = append(rows[channel], m)
		all = append(all, m)
	}
	for _, channel := range channels {
		put(channel, "key")
	}
	for _, key := range keys {
		put("n:keys", key)
	}
	for channel, want := range rows {
		s.expectLoad(channel, want...)
	}
	r.await(s, len(all))
	r.expect(s, all)
	for _, channel := range []string{"plain", "a.b", "n", "*", strings.Repeat("c", push.MaxChannelLen)} {
		s.expectLoad(channel, s.set(channel, "", "in the unnamed namespace"))
	}
}

// checkRoundTrip: all fields of a publication arrive, loaded or delivered. The broker sets offset and time.
func checkRoundTrip(s *suite) {
	s.open("r", push.Stream, push.History{})
	r := newRecorder()
	s.attach("r", r)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	large := 8 << 20
	if s.harness.MaxPublication > 0 {
		large = s.harness.MaxPublication
	}
	publications := []push.Publication{
		{},
		{Data: []byte(`{"price":1.5}`), Key: "key", Offset: 12345, Time: 6789},
		{Data: all},
		{Data: []byte("\r\n\r\n")},
		{Data: []byte("x"), Tags: map[string]string{"symbol": "ACME", "ключ": "значение", "a b": " x ", "empty": ""}},
		{Data: []byte("x"), Tags: map[string]string{"CASE": "1", "case": "2", "nl": "a\r\nb: c", "ü:=%20": "\x01"}},
		{Data: []byte("x"), Tags: map[string]string{"large": strings.Repeat("\x01", min(push.MaxTagBytes, large-1)-len("large"))}},
		{Data: []byte("x"), Info: &push.ClientInfo{}},
		{Data: []byte("x"), Info: &push.ClientInfo{User: "user", Client: "client", ConnInfo: []byte(`{"a":1}`), ChanInfo: []byte(`"b"`)}},
		{Data: bytes.Repeat([]byte{0xfe}, large)},
	}
	var want []broker.Message
	for _, p := range publications {
		want = append(want, s.publish("r:1", p))
	}
	s.expectLoad("r:1", want...)
	r.await(s, len(want))
	r.expect(s, want)
	loaded, _ := s.load("r:1")
	for i, m := range r.recorded(s) {
		if m.Time != loaded[i].Time || m.Time < 1_000_000_000_000 {
			s.Errorf("publication %d is dated %d when delivered and %d when loaded", i, m.Time, loaded[i].Time)
		}
	}
}

// checkTooLarge: a publication that is too large is refused and not stored.
func checkTooLarge(s *suite) {
	s.open("l", push.Stream, push.History{})
	data := make([]byte, s.harness.MaxPublication+1)
	for _, p := range []push.Publication{
		{Data: data},
		{Data: data[:len(data)-1], Key: "k"},
		{Data: data[:len(data)-2], Tags: map[string]string{"t": "v"}},
	} {
		if _, err := s.broker.Publish(s.ctx, "l:1", p, broker.PublishOptions{}); !errors.Is(err, broker.ErrTooLarge) {
			s.Errorf("publish %d bytes: %v, want ErrTooLarge", p.Size(), err)
		}
	}
	s.expectLoad("l:1", s.publish("l:1", push.Publication{Data: data[1:]}))
}
