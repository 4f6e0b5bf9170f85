package delivery

import (
	"bytes"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// scanned is a form of the client protocol, with its scanner.
type scanned struct {
	name   string
	push   func(message []byte) (Found, bool)
	append func(channel string, p *push.Publication) (message []byte)
	decode func(message []byte, r *protocol.Reply) error
}

// scannedForms returns both forms, for data of a size in channels with the prefix ticks:load-.
func scannedForms(size int) []scanned {
	j, p := NewJSONScanner("ticks:load-", size), NewProtobufScanner("ticks:load-")
	return []scanned{
		{"json", j.Push, func(channel string, p *push.Publication) []byte {
			return json.AppendPublicationPush(nil, channel, p, json.PushOptions{})
		}, json.DecodeReply},
		{"protobuf", p.Push, func(channel string, p *push.Publication) []byte {
			message, _, _ := protobuf.Next(protobuf.AppendPublicationPush(nil, channel, p, protobuf.PushOptions{})) // the error would fail the test
			return message
		}, protobuf.DecodeReply},
	}
}

// A scanner parses what the protocol's encoder writes. For every message that both accept, it agrees with the protocol's decoder.
func TestScanner(t *testing.T) {
	for _, form := range scannedForms(MinBytes) {
		t.Run(form.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p := NewPayloads(1, 1, MinBytes)
				channel := rapid.Uint32Range(0, MaxStreams-1).Draw(t, "channel")
				pub := push.Publication{
					Data: p.Append(nil, Header{Stream: channel, Seq: 1}), Offset: rapid.Uint64Range(0, push.MaxOffset).Draw(t, "offset"),
				}
				nameOf := func(channel uint32) string { return "ticks:load-" + strconv.FormatUint(uint64(channel), 10) }
				message := form.append(nameOf(channel), &pub)
				if f, ok := form.push(message); !ok || f.Channel != channel || f.Offset != pub.Offset || !bytes.Equal(f.Data, pub.Data) {
					t.Fatalf("%q: %+v, %v", message, f, ok)
				}
				if cut := rapid.IntRange(0, len(message)-1).Draw(t, "cut"); cut > 0 {
					if f, ok := form.push(message[:cut]); ok && f.Offset == pub.Offset {
						t.Fatalf("of %q the first %d bytes are enough: %+v", message, cut, f)
					}
				}
				message[rapid.IntRange(0, len(message)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
				f, ok := form.push(message)
				var r protocol.Reply
				if err := form.decode(message, &r); ok && err == nil {
					got := &r.Push
					if got.Channel != nameOf(f.Channel) || got.Publication.Offset != f.Offset || !bytes.Equal(got.Publication.Data, f.Data) {
						t.Fatalf("%q: %+v, but the decoder says %+v", message, f, got)
					}
				}
			})
		})
	}
}

// A message with more in it than a scanner knows is left to the decoder.
func TestScannerLeaves(t *testing.T) {
	p := NewPayloads(1, 1, MinBytes)
	data := p.Append(nil, Header{Seq: 1})
	for name, pub := range map[string]push.Publication{
		"tags": {Data: data, Tags: map[string]string{"a": "b"}, Offset: 1},
		"key":  {Data: data, Key: "k", Offset: 1},
		"none": {Offset: 1},
	} {
		for _, form := range scannedForms(MinBytes) {
			if message := form.append("ticks:load-1", &pub); isFound(form.push(message)) {
				t.Errorf("%s, %s: %q is found", form.name, name, message)
			}
		}
	}
	for _, channel := range []string{"ticks:load-", "ticks:load-01", "ticks:load-x", "ticks:load-1x", "ticks:load-1048576", "other:load-1"} {
		for _, form := range scannedForms(MinBytes) {
			if message := form.append(channel, &push.Publication{Data: data}); isFound(form.push(message)) {
				t.Errorf("%s: %q is found", form.name, message)
			}
		}
	}
	for _, form := range scannedForms(MinBytes) {
		if isFound(form.push(nil)) {
			t.Errorf("%s: nothing is found", form.name)
		}
	}
}

// isFound reports whether a scanner has found a publication.
func isFound(_ Found, ok bool) bool { return ok }

// Neither scanner allocates.
func BenchmarkScan(b *testing.B) {
	p := NewPayloads(1, 1, 256)
	pub := push.Publication{Data: p.Append(nil, Header{Stream: 17, Seq: 5, K: 99, Due: 1e15}), Offset: 12345}
	for _, form := range scannedForms(256) {
		message := form.append("ticks:load-17", &pub)
		b.Run(form.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f, ok := form.push(message)
				if _, v := p.Read(f.Data); !ok || v != Valid {
					b.Fatal("not found")
				}
			}
		})
	}
}

func FuzzProtobufScanner(f *testing.F) {
	p := NewPayloads(1, 1, MinBytes)
	form := scannedForms(MinBytes)[1]
	f.Add(form.append("ticks:load-17", &push.Publication{Data: p.Append(nil, Header{Seq: 1}), Offset: 300}))
	f.Add([]byte("\x22\x04\x12\x80\x80\x80"))
	f.Fuzz(func(t *testing.T, message []byte) {
		found, ok := form.push(message)
		var r protocol.Reply
		if err := form.decode(message, &r); !ok || err != nil {
			return
		}
		if got := &r.Push; got.Publication.Offset != found.Offset || !bytes.Equal(got.Publication.Data, found.Data) {
			t.Errorf("%q: %+v, but the decoder says %+v", message, found, got)
		}
	})
}
