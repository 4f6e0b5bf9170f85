package load

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/internal/hostclock"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
)

// Whatever comes in whatever order, the ledger says of each delivery what a set of all that came says, and in the end how much is missing.
func TestLedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const base, lanes = 2, 2
		l := newLedger(6)
		l.room = rapid.SampledFrom([]int{maxGaps, maxGaps, 1000}).Draw(t, "room")
		has := [lanes]map[uint32]bool{{}, {}}
		told := [lanes]map[uint32]bool{{}, {}}
		var last [lanes]uint32
		var excused [lanes]bool
		for range rapid.IntRange(0, 60).Draw(t, "deliveries") {
			if rapid.IntRange(0, 9).Draw(t, "excuse") == 0 {
				l.excuse(base, lanes)
				excused = [lanes]bool{true, true}
			}
			lane := rapid.IntRange(0, lanes-1).Draw(t, "lane")
			seq := uint32(rapid.IntRange(1, 30).Draw(t, "seq")) //nolint:gosec // small
			want := first
			switch {
			case has[lane][seq]:
				want = duplicated
			case seq < last[lane]:
				want = disordered
			default:
				for missed := last[lane] + 1; missed < seq; missed++ {
					told[lane][missed] = excused[lane]
				}
				last[lane], excused[lane] = seq, false
			}
			has[lane][seq] = true
			if got := l.note(base, lane, seq, 0); got != want {
				t.Fatalf("delivery %d of lane %d: %v, want %v", seq, lane, got, want)
			}
		}
		c := course{From: 1, Last: uint32(rapid.IntRange(0, 35).Draw(t, "last"))} //nolint:gosec // small
		for n := uint32(1); n <= c.Last; n++ {
			if rapid.IntRange(0, 5).Draw(t, "hole") == 0 {
				c.Holes = append(c.Holes, n)
			}
		}
		ended := rapid.Bool().Draw(t, "ended")
		for lane := range lanes {
			var want lostCount
			for n := uint32(1); n <= c.Last; n++ {
				if !has[lane][n] && !slices.Contains(c.Holes, n) {
					want.add(1, told[lane][n] || n > last[lane] && (ended || excused[lane]))
				}
			}
			if got := l.missing(base+lane, &c, ended, 0); got != want {
				t.Fatalf("missing of lane %d: %+v, want %+v", lane, got, want)
			}
		}
		if l.entries[0] != (entry{}) || l.entries[1] != (entry{}) || l.entries[4] != (entry{}) {
			t.Fatal("a delivery was entered elsewhere")
		}
	})
}

// The server's own numbers have to rise over all streams of a channel.
func TestLedgerOffsets(t *testing.T) {
	l := newLedger(2)
	for i, c := range []struct {
		lane   int
		seq    uint32
		offset uint64
		want   arrival
	}{
		{0, 1, 10, first},
		{1, 1, 11, first},
		{0, 2, 14, first},
		{1, 2, 13, disordered}, // it is the turn of that lane, but not of that offset
		{1, 3, 15, first},
		{1, 3, 15, duplicated},
		{0, 3, 0, first}, // without an offset
	} {
		if got := l.note(0, c.lane, c.seq, c.offset); got != c.want {
			t.Errorf("step %d: %v, want %v", i, got, c.want)
		}
	}
	l.excuse(0, 2)
	if got := l.note(0, 0, 4, 1); got != first { // another life of the channel
		t.Errorf("after a fresh start: %v", got)
	}
}

// What the server has told of excuses what was due until then, and not what was due later and never came.
func TestLedgerExcuseEnds(t *testing.T) {
	for name, c := range map[string]struct {
		course course
		ended  bool
		came   uint32 // after the excuse; 0: nothing
		want   lostCount
	}{
		"the last was due before":           {course: course{From: 1, Last: 9, Sure: 9, Due: 100}, want: lostCount{Told: 5}},
		"the last was due after":            {course: course{From: 1, Last: 9, Sure: 9, Due: 101}, want: lostCount{Lost: 1, Told: 4}},
		"nothing more was to come":          {course: course{From: 1, Last: 9, Sure: 9, Due: 101}, ended: true, want: lostCount{Told: 5}},
		"the last came":                     {course: course{From: 1, Last: 9, Sure: 9, Due: 101}, came: 9, want: lostCount{Told: 4}},
		"one after is surely published":     {course: course{From: 1, Last: 9, Holes: []uint32{9}, Sure: 8, Due: 101}, want: lostCount{Lost: 1, Told: 3}},
		"nobody knows whether there is one": {course: course{From: 1, Last: 6, Holes: []uint32{5, 6}, Sure: 4, Due: 101}},
	} {
		l := newLedger(1)
		for seq := range uint32(4) {
			l.note(0, 0, seq+1, 0)
		}
		l.excuse(0, 1)
		if c.came > 0 {
			l.note(0, 0, c.came, 0)
		}
		if got := l.missing(0, &c.course, c.ended, 100); got != c.want {
			t.Errorf("%s: missing %+v, want %+v", name, got, c.want)
		}
	}
}

// A ledger that has no room for more gaps still counts what is missing.
func TestLedgerFull(t *testing.T) {
	l := newLedger(1)
	l.room = 1
	for _, seq := range []uint32{3, 6, 10} { // 2, 2 and 3 are missing
		l.note(0, 0, seq, 0)
	}
	c := course{From: 1, Last: 10}
	if n := l.missing(0, &c, false, 0).Lost + l.lost.Lost; n != 7 {
		t.Errorf("%d are missing", n)
	}
	if got := l.note(0, 0, 4, 0); got != duplicated {
		t.Errorf("what was forgotten came late: %v", got)
	}
}

// Data is JSON of the size that was asked for, says what it was made of, and no byte of it can be another one.
func TestPayload(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(MinBytes, 600).Draw(t, "size")
		p := newPayloads(rapid.Uint32().Draw(t, "run"), rapid.Uint64().Draw(t, "seed"), size)
		want := stamp{
			run: p.run, stream: rapid.Uint32Range(0, maxStreams-1).Draw(t, "stream"), seq: rapid.Uint32Range(1, math.MaxUint32).Draw(t, "seq"),
			k: rapid.Uint32().Draw(t, "k"), due: rapid.Int64Range(0, math.MaxInt64).Draw(t, "due"),
		}
		data := p.append(nil, want)
		if len(data) != size || !json.Valid(data) {
			t.Fatalf("%d bytes: %s", len(data), data)
		}
		if got, v := p.read(data); v != sound || got != want {
			t.Fatalf("read %+v, %v; want %+v", got, v, want)
		}
		other := *p
		other.run++
		if _, v := other.read(data); v != foreign {
			t.Fatalf("for another run it is %v", v)
		}
		at := rapid.IntRange(0, size-1).Draw(t, "at")
		data[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "change")) //nolint:gosec // a byte
		if _, v := p.read(data); v != corrupt {
			t.Fatalf("with byte %d changed it is %v: %s", at, v, data)
		}
	})
}

// The scanner finds what the protocol's encoder writes, and nothing else: whatever it takes the decoder takes as the same.
func TestScanner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPayloads(1, 1, MinBytes)
		s := newScanner("ticks:load-", MinBytes)
		channel := rapid.Uint32Range(0, maxStreams-1).Draw(t, "channel")
		pub := push.Publication{
			Data: p.append(nil, stamp{stream: channel, seq: 1}), Offset: rapid.Uint64Range(0, push.MaxOffset).Draw(t, "offset"),
		}
		plan := plan{spec: Spec{Prefix: "ticks:load-"}}
		line := protocol.AppendPublicationPush(nil, plan.channelName(int(channel)), &pub, protocol.PushOptions{})
		if f, ok := s.push(line); !ok || f.channel != channel || f.offset != pub.Offset || !bytes.Equal(f.data, pub.Data) {
			t.Fatalf("%s: %+v, %v", line, f, ok)
		}
		line[rapid.IntRange(0, len(line)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		f, ok := s.push(line)
		var r protocol.Reply
		if err := protocol.DecodeReply(line, &r); ok && err == nil {
			got := &r.Push
			if got.Channel != plan.channelName(int(f.channel)) || got.Publication.Offset != f.offset || !bytes.Equal(got.Publication.Data, f.data) {
				t.Fatalf("%s: %+v, but the decoder says %+v", line, f, got)
			}
		}
	})
}

// Each client wants as many different channels as it should, the same ones in every process, and no channel is left out for good.
func TestSubscriptions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Spec{Shape: Market, Channels: rapid.IntRange(1, 50).Draw(t, "channels"), Seed: rapid.Uint64().Draw(t, "seed")}
		s.Each = rapid.IntRange(1, s.Channels).Draw(t, "each")
		p, again := newPlan(s.withDefaults()), newPlan(s.withDefaults())
		for client := range 5 {
			list := p.subscriptions(client)
			if len(slices.Compact(slices.Clone(list))) != s.Each || !slices.IsSorted(list) || int(list[len(list)-1]) >= s.Channels {
				t.Fatalf("%d of %d channels: %v", s.Each, s.Channels, list)
			}
			if !slices.Equal(list, again.subscriptions(client)) {
				t.Fatal("they are others in another process")
			}
		}
	})
	p := newPlan(Spec{Shape: Market, Channels: 50, Each: 10}.withDefaults())
	var wanted [50]int
	for client := range 1000 {
		for _, c := range p.subscriptions(client) {
			wanted[c]++
		}
	}
	if least, most := slices.Min(wanted[:]), slices.Max(wanted[:]); least < 120 || most > 280 {
		t.Errorf("channels are wanted by %d to %d of 1,000 clients, 200 of them should", least, most)
	}
}

// The schedule is kept by each publication alone, and what belongs to one stream belongs to one writer.
func TestSchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Spec{
			Shape: rapid.SampledFrom([]Shape{One, Market, Slow, Storm}).Draw(t, "shape"), Rate: rapid.Float64Range(0.1, 50_000).Draw(t, "rate"),
			Channels: rapid.IntRange(1, 300).Draw(t, "channels"), Each: 1, Zipf: rapid.SampledFrom([]float64{0, 1.1, 2}).Draw(t, "zipf"),
		}.withDefaults()
		p := newPlan(s)
		owner := map[uint32]int{}
		for k := range uint32(500) {
			if due := p.due(k + 1); due < p.due(k) || math.Abs(due.Seconds()-float64(k+1)/s.Rate) > 1e-6 {
				t.Fatalf("publication %d is due after %v at %v a second", k+1, due, s.Rate)
			}
			w, channel := p.writerOf(k), p.channelOf(k)
			stream := p.streamOf(channel, w)
			if w < 0 || w >= p.writers || channel >= p.channels || int(stream) >= p.streams() || int(stream)/p.lanes != channel {
				t.Fatalf("publication %d: writer %d, channel %d, stream %d", k, w, channel, stream)
			}
			if before, known := owner[stream]; known && before != w {
				t.Fatalf("stream %d has writers %d and %d", stream, before, w)
			}
			owner[stream] = w
		}
	})
}

// Channels are published to as the exponent says: the first 2 to its power times as often as the second.
func TestZipf(t *testing.T) {
	p := newPlan(Spec{Shape: Market, Channels: 100, Zipf: 1.5}.withDefaults())
	var counts [100]float64
	const n = 200_000
	for k := range uint32(n) {
		counts[p.channelOf(k)]++
	}
	if got, want := counts[0]/counts[1], math.Pow(2, 1.5); math.Abs(got-want) > 0.15 {
		t.Errorf("the first is published to %.2f times as often as the second, want %.2f", got, want)
	}
	if slices.Min(counts[:]) == 0 {
		t.Error("a channel is never published to")
	}
}

// As many clients stall as should, to within one.
func TestStallers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Spec{Shape: Slow, Clients: rapid.IntRange(1, 2000).Draw(t, "clients"), Stalled: rapid.Float64Range(0.001, 0.999).Draw(t, "share")}
		p, n := newPlan(s.withDefaults()), 0
		for i := range s.Clients {
			if p.stalls(i) {
				n++
			}
		}
		if want := float64(s.Clients) * s.Stalled; math.Abs(float64(n)-want) > 1 {
			t.Fatalf("%d of %d stall, want %.1f", n, s.Clients, want)
		}
	})
}

// Histograms of several processes add up to what one would have counted.
func TestLatency(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := newHistogram()
		var parts []int64
		for range rapid.IntRange(1, 4).Draw(t, "processes") {
			part := newHistogram()
			for _, v := range rapid.SliceOf(rapid.Int64Range(-5, 5_000_000_000)).Draw(t, "micros") {
				record(part, v)
				record(whole, v)
			}
			parts = added(parts, part.Export().Counts)
		}
		if got, want := latency(histogramOf(parts)), latency(whole); got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
		if got := latency(since(parts, parts)); got != (Latency{}) {
			t.Fatalf("nothing has come, but %+v", got)
		}
	})
}

// Clocks of processes agree, and do not go back.
func TestClock(t *testing.T) {
	a := hostclock.Now()
	hostclock.Nap(time.Millisecond)
	if b := hostclock.Now(); b-a < int64(time.Millisecond) {
		t.Errorf("a millisecond took %d ns", b-a)
	}
}

func BenchmarkLedger(b *testing.B) {
	const entries = 1_000_000
	l := newLedger(entries)
	b.ReportAllocs()
	at, seq := 0, uint32(1)
	for b.Loop() {
		l.note(at, 0, seq, uint64(seq))
		if at++; at == entries {
			at, seq = 0, seq+1
		}
	}
}

// BenchmarkScan is all that is done to find a publication in a message and to check every byte of it.
func BenchmarkScan(b *testing.B) {
	p := newPayloads(1, 1, 256)
	s := newScanner("ticks:load-", 256)
	pub := push.Publication{Data: p.append(nil, stamp{stream: 17, seq: 5, k: 99, due: 1e15}), Offset: 12345}
	line := protocol.AppendPublicationPush(nil, "ticks:load-17", &pub, protocol.PushOptions{})
	b.ReportAllocs()
	for b.Loop() {
		f, ok := s.push(line)
		if _, v := p.read(f.data); !ok || v != sound {
			b.Fatal("not found")
		}
	}
}

// Connections go to all nodes in turn, each with a path of its own or the usual one.
func TestAddress(t *testing.T) {
	s := Spec{URL: "http://a:1", Nodes: []string{"wss://b:2/path", "http://c:3"}}.withDefaults()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	for n := range 7 {
		want := []string{"ws://a:1/connection/websocket", "wss://b:2/path", "ws://c:3/connection/websocket"}[n%3]
		if got := s.address(n); got != want {
			t.Errorf("connection %d goes to %s, not %s", n, got, want)
		}
	}
	if err := (Spec{URL: "http://a:1", Nodes: []string{"ftp://user:secret@b"}}).Validate(); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("the error is %v", err)
	}
}

// What may be secret in addresses is in no result.
func TestPublic(t *testing.T) {
	s := Spec{URL: "ws://user:secret@host:1/path?token=secret#secret", PublishURL: "https://user:secret@host/api?key=secret"}
	s.Nodes = []string{"ws://user:secret@other:1/path?token=secret"}
	if got := s.public(); got.Nodes[0] != "ws://other:1/path" || s.Nodes[0] == got.Nodes[0] {
		t.Errorf("%q of %q", got.Nodes, s.Nodes)
	}
	if got := s.public(); got.URL != "ws://host:1/path" || got.PublishURL != "https://host/api" {
		t.Errorf("%q and %q", got.URL, got.PublishURL)
	}
	if got := (Spec{}).public(); got.URL != "" || got.PublishURL != "" {
		t.Errorf("%+v", got)
	}
}
