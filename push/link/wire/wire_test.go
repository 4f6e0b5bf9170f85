package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/link/wire"
)

func messages() *rapid.Generator[broker.Message] {
	return rapid.Custom(func(t *rapid.T) broker.Message {
		text, data := rapid.String(), rapid.SliceOf(rapid.Byte())
		m := broker.Message{Channel: text.Draw(t, "channel"), Retag: rapid.Uint64().Draw(t, "retag")}
		m.Publication = push.Publication{
			Offset: rapid.Uint64().Draw(t, "offset"), Key: text.Draw(t, "key"), Data: data.Draw(t, "data"),
			Time: rapid.Int64().Draw(t, "time"), Op: push.Op(rapid.IntRange(0, int(push.Clear)).Draw(t, "op")), //nolint:gosec // a small number
		}
		if rapid.Bool().Draw(t, "has tags") {
			m.Tags = rapid.MapOfN(text, text, 1, 5).Draw(t, "tags")
		}
		if rapid.Bool().Draw(t, "has info") {
			m.Info = &push.ClientInfo{User: text.Draw(t, "user"), Client: text.Draw(t, "client"), ConnInfo: data.Draw(t, "conn"), ChanInfo: data.Draw(t, "chan")}
		}
		return m
	})
}

// canonical returns a message with nil in place of everything empty.
func canonical(m broker.Message) broker.Message {
	empty := func(b []byte) []byte {
		if len(b) == 0 {
			return nil
		}
		return b
	}
	m.Data = empty(m.Data)
	if m.Info != nil {
		info := *m.Info
		info.ConnInfo, info.ChanInfo = empty(info.ConnInfo), empty(info.ChanInfo)
		m.Info = &info
	}
	return m
}

func wantSame(t *rapid.T, got, want []broker.Message) {
	if len(got) != len(want) {
		t.Fatalf("%d messages, want %d", len(got), len(want))
	}
	for i := range got {
		if a, b := canonical(got[i]), canonical(want[i]); !reflect.DeepEqual(a, b) {
			t.Fatalf("message %d is %+v, want %+v", i, a, b)
		}
	}
}

// What is appended is decoded again, also with bytes behind it that a newer release may have added.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d wire.Decoder
		want := rapid.SliceOfN(messages(), 0, 5).Draw(t, "messages")
		upTo := rapid.Uint64().Draw(t, "up to")
		batch, load := wire.AppendBatch(nil, upTo), wire.AppendLoad(nil)
		for i := range want {
			batch, load = wire.AppendMessage(batch, &want[i]), wire.AppendMessage(load, &want[i])
		}
		e, err := d.Event(batch, nil)
		if err != nil || e.Kind != wire.Batch || e.Offset != upTo {
			t.Fatalf("%+v, %v", e, err)
		}
		wantSame(t, e.Messages, want)
		got, h, err := d.Load(load, nil)
		if err != nil || h != nil {
			t.Fatalf("%v, %v", h, err)
		}
		wantSame(t, got, want)
		if len(want) > 0 {
			key, m, err := wire.ParsePublish(wire.AppendPublish(nil, want[0].Key, &want[0]))
			if err != nil || key != want[0].Key {
				t.Fatalf("%q, %v", key, err)
			}
			wantSame(t, []broker.Message{m}, want[:1])
		}
		clear(batch)
		wantSame(t, e.Messages, want) // they have their own memory
	})
}

func TestRequests(t *testing.T) {
	part := broker.Partition{Namespace: "n", Index: 3}
	check := func(name string, got, want any, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}
	}
	more := []byte("what a newer release has added")
	var f wire.FollowRequest
	follow := wire.FollowRequest{Partition: part, ID: "id"}
	err := f.Parse(append(follow.Append(nil), more...))
	check("follow", f, follow, err)
	var i wire.InterestRequest
	interest := wire.InterestRequest{ID: "id", Want: []string{"n:a", ""}, Unwant: []string{"n:b"}, Resume: true}
	err = i.Parse(append(interest.Append(nil), more...))
	check("interest", i, interest, err)
	var l wire.LoadRequest
	load := wire.LoadRequest{Channel: "n:a", Options: broker.LoadOptions{RowsOnly: true}, After: 7}
	err = l.Parse(append(load.Append(nil), more...))
	check("load", l, load, err)
	p, err := wire.ParsePartition(append(wire.PartitionBody(part), more...))
	check("partition", p, part, err)
	at, err := wire.ParsePosition(append(wire.AppendPosition(nil, push.Position{Epoch: "e", Offset: 9}), more...))
	check("position", at, push.Position{Epoch: "e", Offset: 9}, err)
	offset, err := wire.ParseOffset(append(wire.AppendOffset(nil, 5), more...))
	check("offset", offset, uint64(5), err)
	node, payload, err := wire.ParseTell(append(wire.AppendTell(nil, "node", []byte("x")), more...))
	check("tell", node+string(payload), "nodex", err)
	text, err := wire.ParseText(append(wire.AppendText(nil, "prefix"), more...))
	check("text", text, "prefix", err)
	leases := []broker.Lease{{Key: "a\x00", Value: []byte("1")}, {Key: "b"}}
	listed, ttl, err := wire.ParseLeases(wire.AppendLease(wire.AppendLease(nil, leases[0], 0), leases[1], time.Second), nil)
	check("leases", listed, leases, err)
	check("ttl", ttl, time.Second, nil)
	var d wire.Decoder
	for _, tt := range []struct {
		body []byte
		want wire.Event
	}{
		{wire.AppendStart(nil, wire.Start, at), wire.Event{Kind: wire.Start, Offset: 9, Epoch: "e"}},
		{wire.AppendStart(nil, wire.Reset, at), wire.Event{Kind: wire.Reset, Offset: 9, Epoch: "e"}},
		{wire.AppendSkipped(nil, 4), wire.Event{Kind: wire.Skipped, Offset: 4}},
		{wire.AppendGap(nil, "n:a", 4), wire.Event{Kind: wire.Gap, Offset: 4, Channel: "n:a"}},
	} {
		e, err := d.Event(append(tt.body, more...), nil)
		check("event", e, tt.want, err)
	}
	_, h, err := d.Load(append(wire.AppendHistory(nil, broker.History{Epoch: "e", Floor: 1, Head: 2}), more...), nil)
	check("history", h, &broker.History{Epoch: "e", Floor: 1, Head: 2}, err)
}

// decodeAll decodes bytes in every layout, and returns how many succeeded.
func decodeAll(body []byte) (ok int) {
	var d wire.Decoder
	count := func(err error) {
		if err == nil {
			ok++
		} else if !errors.Is(err, wire.ErrLayout) {
			panic(err)
		}
	}
	_, err := d.Event(body, nil)
	count(err)
	_, _, err = d.Load(body, nil)
	count(err)
	_, _, err = wire.ParsePublish(body)
	count(err)
	count(new(wire.FollowRequest).Parse(body))
	count(new(wire.InterestRequest).Parse(body))
	count(new(wire.LoadRequest).Parse(body))
	_, err = wire.ParsePartition(body)
	count(err)
	_, err = wire.ParsePosition(body)
	count(err)
	_, err = wire.ParseOffset(body)
	count(err)
	_, _, err = wire.ParseTell(body)
	count(err)
	_, err = wire.ParseText(body)
	count(err)
	_, _, err = wire.ParseLeases(body, nil)
	count(err)
	return ok
}

// Bytes that are cut short or changed never crash a decoder.
func FuzzDecode(f *testing.F) {
	m := broker.Message{Channel: "n:a", Publication: push.Publication{
		Offset: 1, Key: "k", Data: []byte("data"), Tags: map[string]string{"a": "b"}, Info: &push.ClientInfo{User: "u"},
	}}
	f.Add(wire.AppendMessage(wire.AppendBatch(nil, 9), &m))
	f.Add(wire.AppendPublish(nil, "key", &m))
	f.Add(wire.AppendGap(nil, "n:a", 4))
	f.Add((&wire.InterestRequest{ID: "id", Want: []string{"n:a"}, Unwant: []string{"n:b"}}).Append(nil))
	f.Add(wire.AppendLease(nil, broker.Lease{Key: "k", Value: []byte("v")}, time.Second))
	f.Fuzz(func(_ *testing.T, body []byte) {
		for n := range body {
			decodeAll(body[:n])
		}
		decodeAll(body)
	})
}

// A peer that sends little cannot have much allocated: a number of items is believed only if there are bytes for them.
func TestNumbersWithoutItems(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0x7f}
	interest := append([]byte{0, 0}, huge...)
	tags := wire.AppendMessage(nil, &broker.Message{Publication: push.Publication{Tags: map[string]string{"": ""}}})
	tags = append(tags[:len(tags)-4], huge...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := new(wire.InterestRequest).Parse(interest); !errors.Is(err, wire.ErrLayout) {
		t.Error(err)
	}
	var d wire.Decoder
	if _, err := d.Event(append(wire.AppendBatch(nil, 1), tags...), nil); !errors.Is(err, wire.ErrLayout) {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
	if decodeAll(nil) != 1 { // an empty list of leases
		t.Error("nothing was decoded as something")
	}
}

// A message costs the same few allocations however often its channel comes.
func TestAllocations(t *testing.T) {
	m := broker.Message{Channel: "quotes:EURUSD", Publication: push.Publication{Offset: 1 << 40, Key: "EURUSD", Data: bytes.Repeat([]byte("x"), 200)}}
	body := wire.AppendMessage(wire.AppendBatch(nil, 1<<40), &m)
	var d wire.Decoder
	got := make([]broker.Message, 0, 1)
	if n := testing.AllocsPerRun(100, func() { _, _ = d.Event(body, got) }); n > 2 {
		t.Errorf("%v allocations: more than the key and the data", n)
	}
}

func BenchmarkBatch(b *testing.B) {
	m := broker.Message{Channel: "quotes:EURUSD", Publication: push.Publication{Offset: 1 << 40, Key: "EURUSD", Data: bytes.Repeat([]byte("x"), 200)}}
	for _, n := range []int{1, 64, 512} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var d wire.Decoder
			var body []byte
			got := make([]broker.Message, 0, n)
			for range b.N {
				body = wire.AppendBatch(body[:0], 1<<40)
				for range n {
					body = wire.AppendMessage(body, &m)
				}
				if _, err := d.Event(body, got); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/message")
		})
	}
}
