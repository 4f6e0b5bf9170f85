package nats_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/nats"
)

// overTheWire writes headers as the client library does, and reads them as it does.
func overTheWire(h client.Header) (client.Header, error) {
	if len(h) == 0 {
		return nil, nil
	}
	var b bytes.Buffer
	b.WriteString("NATS/1.0\r\n")
	for name, values := range h {
		for _, v := range values {
			v = strings.Trim(strings.NewReplacer("\r", " ", "\n", " ").Replace(v), " \t")
			fmt.Fprintf(&b, "%s: %s\r\n", name, v)
		}
	}
	b.WriteString("\r\n")
	return client.DecodeHeadersMsg(b.Bytes())
}

func publications(mode push.Mode) *rapid.Generator[broker.Message] {
	ops := []push.Op{push.Set, push.Set, push.Clear}
	if mode != push.Stream {
		ops = append(ops, push.Remove)
	}
	text := rapid.OneOf(rapid.String(), awkward())
	return rapid.Custom(func(t *rapid.T) broker.Message {
		m := broker.Message{Channel: "n:" + text.Draw(t, "channel")}
		m.Key, m.Op = text.Draw(t, "key"), rapid.SampledFrom(ops).Draw(t, "op")
		if m.Op == push.Set {
			m.Data = rapid.SliceOf(rapid.Byte()).Draw(t, "data")
		}
		m.Tags = rapid.MapOfN(text, text, 0, 3).Draw(t, "tags")
		if rapid.Bool().Draw(t, "info") {
			m.Info = &push.ClientInfo{
				User: rapid.String().Draw(t, "user"), Client: rapid.String().Draw(t, "client"),
				ConnInfo: rapid.SliceOf(rapid.Byte()).Draw(t, "conn"), ChanInfo: rapid.SliceOf(rapid.Byte()).Draw(t, "chan"),
			}
		}
		return m
	})
}

// TestRoundTrip: whatever a publication contains comes back, over the wire, in every mode.
func TestRoundTrip(t *testing.T) {
	for _, mode := range []push.Mode{push.Stream, push.Value, push.Table} {
		t.Run(mode.String(), func(t *testing.T) {
			codec := nats.NewCodec(broker.Namespace{Name: "n", Mode: mode, Partitions: 1, History: push.History{Age: time.Hour}}, nil)
			rapid.Check(t, func(t *rapid.T) {
				m := publications(mode).Draw(t, "publication")
				msg, err := codec.Encode(&m, rapid.String().Draw(t, "idempotency key"))
				if err != nil {
					t.Fatal(err)
				}
				if msg.Header, err = overTheWire(msg.Header); err != nil {
					t.Fatal(err)
				}
				got, err := codec.Decode(msg, 7, time.UnixMilli(1234))
				if push.CheckChannel(m.Channel) != nil || push.CheckKey(m.Key) != nil {
					if err == nil {
						t.Fatalf("%q of %q was taken", m.Key, m.Channel)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				want := m
				want.Offset, want.Time = 7, 1234
				if !sameMessage(&got, &want) {
					t.Fatalf("got %+v, want %+v", got, want)
				}
			})
		})
	}
}

func sameMessage(a, b *broker.Message) bool {
	if (a.Info == nil) != (b.Info == nil) {
		return false
	}
	if a.Info != nil && (a.Info.User != b.Info.User || a.Info.Client != b.Info.Client ||
		!bytes.Equal(a.Info.ConnInfo, b.Info.ConnInfo) || !bytes.Equal(a.Info.ChanInfo, b.Info.ChanInfo)) {
		return false
	}
	x, y := *a, *b
	x.Info, y.Info, x.Tags, y.Tags, x.Data, y.Data = nil, nil, nil, nil, nil, nil
	return reflect.DeepEqual(x, y) && maps.Equal(a.Tags, b.Tags) && bytes.Equal(a.Data, b.Data)
}

var errUnwanted = errors.New("unwanted")

// TestForeignMessages: a message of another program is a publication if possible, and otherwise an error.
func TestForeignMessages(t *testing.T) {
	check := func(data []byte) ([]byte, error) {
		if string(data) == "bad" {
			return nil, errUnwanted
		}
		return append([]byte("checked "), data...), nil
	}
	ns := broker.Namespace{Name: "n", Mode: push.Table, Partitions: 1}
	tables, streams := nats.NewCodec(ns, check), nats.NewCodec(broker.Namespace{Name: "n", Partitions: 1}, check)
	for _, c := range []struct {
		name    string
		codec   nats.Codec
		subject string
		header  client.Header
		data    string
		want    string // the data of the publication
	}{
		{"plain", streams, "sluice.n.s.n:a", nil, "x", "n:a  checked x"},
		{"row", tables, "sluice.n.t.n:a.k%20k", nil, "x", "n:a k k checked x"},
		{"row without key", tables, "sluice.n.t.n:a.%", nil, "x", "n:a  checked x"},
		{"table without row", tables, "sluice.n.t.n:a", nil, "x", ""},
		{"row of a row", tables, "sluice.n.t.n:a.b.c", nil, "x", ""},
		{"stream with row", streams, "sluice.n.s.n:a.b", nil, "x", ""},
		{"another namespace", streams, "sluice.n.s.m:a", nil, "x", ""},
		{"another prefix", streams, "other", nil, "x", ""},
		{"empty channel", streams, "sluice.n.s.%", nil, "x", ""},
		{"no escape", streams, "sluice.n.s.n:%zz", nil, "x", "n:%zz  checked x"},
		{"half an escape", streams, "sluice.n.s.n:%2", nil, "x", "n:%2  checked x"},
		{"small letters", streams, "sluice.n.s.n:%2e", nil, "x", "n:%2e  checked x"},
		{"control character", streams, "sluice.n.s.n:%00", nil, "x", ""},
		{"no UTF-8", streams, "sluice.n.s.n:\xff", nil, "x", ""},
		{"long channel", streams, "sluice.n.s.n:" + strings.Repeat("a", push.MaxChannelLen), nil, "x", ""},
		{"long key", tables, "sluice.n.t.n:a." + strings.Repeat("a", push.MaxKeyLen+1), nil, "x", ""},
		{"refused", streams, "sluice.n.s.n:a", nil, "bad", ""},
		{"info is no JSON", streams, "sluice.n.s.n:a", client.Header{"Sluice-Info": {"{"}}, "x", ""},
		{"info is something else", streams, "sluice.n.s.n:a", client.Header{"Sluice-Info": {"[]"}}, "x", ""},
		{"info refused", streams, "sluice.n.s.n:a", client.Header{"Sluice-Info": {`{"conn_info":"YmFk"}`}}, "x", ""},
		{"info taken", streams, "sluice.n.s.n:a", client.Header{"Sluice-Info": {`{"user":"u","chan_info":"e30="}`}}, "x", "n:a  checked x"},
		{"key", streams, "sluice.n.s.n:a", client.Header{"Sluice-Key": {"k"}}, "x", "n:a k checked x"},
		{"a key that cannot be", streams, "sluice.n.s.n:a", client.Header{"Sluice-Key": {"%00"}}, "x", ""},
		{"removal", tables, "sluice.n.t.n:a.k", client.Header{"Sluice-Removed": {"1"}}, "bad", "n:a k "},
		{"removal from a stream", streams, "sluice.n.s.n:a", client.Header{"Sluice-Removed": {"1"}}, "x", "n:a  checked x"},
		{"clear", tables, "sluice.n.t.n:a.%c", nil, "bad", "n:a  "},
		{"tags without a name or value", streams, "sluice.n.s.n:a", client.Header{"Sluice-Tag-": {""}, "Sluice-Tag-b": {}}, "x", "n:a  checked x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := c.codec.Decode(&client.Msg{Subject: c.subject, Header: c.header, Data: []byte(c.data)}, 1, time.UnixMilli(1))
			got := fmt.Sprintf("%s %s %s", m.Channel, m.Key, m.Data)
			if err != nil {
				got = ""
			}
			if got != c.want {
				t.Errorf("got %q and %v, want %q", got, err, c.want)
			}
		})
	}
}

// FuzzDecode: no message of another program makes decode panic, and an accepted publication keeps to the rules.
func FuzzDecode(f *testing.F) {
	f.Add("sluice.n.t.n:a.k", "Sluice-Tag-%41", "%", []byte("x"), byte(1))
	f.Add("sluice.n.s.n:a", "Sluice-Info", `{"user":"a"}`, []byte("x"), byte(0))
	f.Fuzz(func(t *testing.T, subject, name, value string, data []byte, mode byte) {
		modes := []push.Mode{push.Stream, push.Table, push.Value}
		codec := nats.NewCodec(broker.Namespace{Name: "n", Mode: modes[int(mode)%len(modes)], Partitions: 1}, nil)
		m, err := codec.Decode(&client.Msg{Subject: subject, Header: client.Header{name: {value}}, Data: data}, 1, time.UnixMilli(1))
		if err == nil {
			if err := errors.Join(push.CheckChannel(m.Channel), push.CheckKey(m.Key)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
