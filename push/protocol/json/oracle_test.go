package json_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	clientjson "github.com/sluice-push/sluice/push/protocol/json"
)

// oracle decodes commands with encoding/json, slowly and simply. It reads members by name itself, because structs would match names regardless
// of case and merge duplicate members.
type oracle struct {
	illTyped bool
}

// members returns the members of an object, the last of each name, and none for null.
func (o *oracle) members(raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	o.value(raw, &m)
	return m
}

// value decodes raw, which may be absent, into v.
func (o *oracle) value(raw json.RawMessage, v any) {
	if raw == nil || string(raw) == "null" {
		return
	}
	if json.Unmarshal(raw, v) != nil {
		o.illTyped = true
	}
}

func (o *oracle) str(raw json.RawMessage) (s string) {
	o.value(raw, &s)
	return s
}

func (o *oracle) boolean(raw json.RawMessage) (b bool) {
	o.value(raw, &b)
	return b
}

func (o *oracle) number(raw json.RawMessage, most uint64) (n uint64) {
	o.value(raw, &n)
	if n > most {
		o.illTyped = true
		return 0
	}
	return n
}

func (o *oracle) signed(raw json.RawMessage) (n int32) {
	o.value(raw, &n)
	return n
}

func (o *oracle) stringMap(raw json.RawMessage) map[string]string {
	var m map[string]string
	for name, value := range o.members(raw) {
		if m == nil {
			m = make(map[string]string)
		}
		m[name] = o.str(value)
	}
	return m
}

// data is a raw value on one line.
func (o *oracle) data(raw json.RawMessage) []byte {
	if !bytes.ContainsAny(raw, "\r\n") {
		return raw
	}
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func (o *oracle) filter(raw json.RawMessage) []byte {
	if string(raw) == "null" {
		return nil
	}
	return o.data(raw)
}

func (o *oracle) subscribe(m map[string]json.RawMessage) protocol.SubscribeRequest {
	return protocol.SubscribeRequest{
		Channel: o.str(m["channel"]), Token: o.str(m["token"]), Data: o.data(m["data"]), Recover: o.boolean(m["recover"]),
		Position:   push.Position{Epoch: o.str(m["epoch"]), Offset: o.number(m["offset"], push.MaxOffset)},
		Positioned: o.boolean(m["positioned"]), Recoverable: o.boolean(m["recoverable"]), JoinLeave: o.boolean(m["join_leave"]),
		Delta: o.str(m["delta"]), Filter: o.filter(m["tf"]), Flag: o.number(m["flag"], push.MaxOffset),
		Type: uint32(o.number(m["type"], math.MaxUint32)), Phase: uint32(o.number(m["phase"], math.MaxUint32)),
		Limit: o.signed(m["limit"]), Cursor: o.str(m["cursor"]),
	}
}

func (o *oracle) connect(m map[string]json.RawMessage) protocol.ConnectRequest {
	r := protocol.ConnectRequest{
		Token: o.str(m["token"]), Data: o.data(m["data"]), Name: o.str(m["name"]), Version: o.str(m["version"]),
		Headers: o.stringMap(m["headers"]), Flag: o.number(m["flag"], push.MaxOffset),
	}
	for channel, raw := range o.members(m["subs"]) {
		if r.Subs == nil {
			r.Subs = make(map[string]protocol.SubscribeRequest)
		}
		sub := o.subscribe(o.members(raw))
		sub.Channel = channel
		r.Subs[channel] = sub
	}
	return r
}

func (o *oracle) history(m map[string]json.RawMessage) protocol.HistoryRequest {
	since := o.members(m["since"])
	return protocol.HistoryRequest{
		Channel: o.str(m["channel"]), Limit: o.signed(m["limit"]), HasSince: since != nil, Reverse: o.boolean(m["reverse"]),
		Since: push.Position{Epoch: o.str(since["epoch"]), Offset: o.number(since["offset"], push.MaxOffset)},
	}
}

func (o *oracle) request(c *protocol.Command, raw json.RawMessage) {
	m := o.members(raw)
	switch c.Kind {
	case protocol.KindConnect:
		c.Connect = o.connect(m)
	case protocol.KindSubscribe:
		c.Subscribe = o.subscribe(m)
	case protocol.KindUnsubscribe:
		c.Unsubscribe.Channel = o.str(m["channel"])
	case protocol.KindPublish:
		c.Publish = protocol.PublishRequest{
			Channel: o.str(m["channel"]), Data: o.data(m["data"]), Key: o.str(m["key"]), Tags: o.stringMap(m["tags"]),
			Removed: o.boolean(m["removed"]), Type: uint32(o.number(m["type"], math.MaxUint32)),
		}
	case protocol.KindPresence:
		c.Presence.Channel = o.str(m["channel"])
	case protocol.KindPresenceStats:
		c.PresenceStats.Channel = o.str(m["channel"])
	case protocol.KindHistory:
		c.History = o.history(m)
	case protocol.KindSend:
		c.Send.Data = o.data(m["data"])
	case protocol.KindRPC:
		c.RPC = protocol.RPCRequest{Method: o.str(m["method"]), Data: o.data(m["data"])}
	case protocol.KindRefresh:
		c.Refresh.Token = o.str(m["token"])
	case protocol.KindSubRefresh:
		c.SubRefresh = protocol.SubRefreshRequest{Channel: o.str(m["channel"]), Token: o.str(m["token"])}
	}
}

// command decodes a line that is known to be an object.
func (o *oracle) command(line []byte) (c protocol.Command) {
	kinds := make(map[string]protocol.Kind)
	for kind := protocol.KindConnect; kind < protocol.KindPush; kind++ {
		kinds[kind.String()] = kind
	}
	c.ID = uint32(o.number(o.members(line)["id"], math.MaxUint32))
	d := json.NewDecoder(bytes.NewReader(line))
	must(d.Token())
	for d.More() {
		c.Kind = max(c.Kind, protocol.KindUnknown)
		name := must(d.Token()).(string)
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			panic(err)
		}
		if name == "id" { // a duplicate that does not count has to be a number, too
			o.number(raw, math.MaxUint32)
		}
		if kind := kinds[name]; kind != 0 && c.Kind == protocol.KindUnknown && string(raw) != "null" {
			c.Kind = kind
			o.request(&c, raw)
		}
	}
	return c
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// escapes matches the escape sequences of a valid text, where a surrogate pair is one.
var escapes = regexp.MustCompile(`\\(u[dD][89abAB]..\\u[dD][c-fC-F]..|u....|.)`)

// hasHalf reports whether a string of a valid text contains half of a surrogate pair.
func hasHalf(text []byte) bool {
	return slices.ContainsFunc(escapes.FindAll(text, -1), func(e []byte) bool {
		return len(e) == 6 && (e[2] == 'd' || e[2] == 'D') && e[3] >= '8'
	})
}

// FuzzDecodeCommand compares the decoder with encoding/json. Intended differences: invalid UTF-8 and half a surrogate pair are refused, and so
// are values nested too deep, a limit that is lifted here. Each duplicate of a member has to have the right type, but the oracle sees only the
// last. So if the decoder alone finds a wrong type, the line must contain a duplicate name.
func FuzzDecodeCommand(f *testing.F) {
	for _, form := range commandForms {
		f.Add([]byte(form.json))
	}
	f.Add([]byte(`{"id":1,"publish":{"channel":"a","channel":5,"data":[1,{"a":"\ud800\u0061"}]},"publish":null}`))
	f.Add([]byte(`{"":{"0":[{"":"\ud800"}]},"a":"\ud83d\ude00\\ud800","send":{}}`))
	f.Add([]byte("{\"id\":-0,\"history\":{\"limit\":-0,\"since\":null,\"since\":{}}}\r"))
	f.Add([]byte(`{"id":1,"connect":{"headers":{"a":null},"subs":{"a":null,"":{"type":1e0}}}}`))
	f.Add([]byte(`{"id":1,"subscribe":{"type":1,"phase":2,"limit":-0,"cursor":"\u0031","phase":null,"limit":2147483648}}`))
	f.Add([]byte("{\"send\":{\"data\":[ \n \"a\\\"\\\\\", 1.0e-2 ]}}"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if len(line) > 5000 {
			return // encoding/json has a limit of depth of its own
		}
		var got protocol.Command
		err := clientjson.Limits{Depth: -1}.DecodeCommand(line, &got)
		sound := json.Valid(line) && utf8.Valid(line) && bytes.TrimLeft(line, " \t\r\n")[0] == '{'
		if !sound {
			var broken *clientjson.SyntaxError
			if !errors.As(err, &broken) || broken.Offset < 0 || broken.Offset > len(line) {
				t.Fatalf("%q is not sound, error is %v", line, err)
			}
			return
		}
		if hasHalf(line) {
			if err == nil {
				t.Fatalf("%q holds half of a surrogate pair, no error", line)
			}
			return
		}
		var o oracle
		want := o.command(line)
		if err != nil {
			if !o.illTyped && !hasDuplicates(line) {
				t.Fatalf("%q is sound, error is %v", line, err)
			}
			var refusal *push.Error
			if errors.As(err, &refusal) != (got.ID != 0) {
				t.Fatalf("%q: ID is %d, error is %v", line, got.ID, err)
			}
			return
		}
		if o.illTyped {
			t.Fatalf("%q has wrong types, no error", line)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q:\n%+v, want\n%+v", line, got, want)
		}
		checkCommandRoundTrip(t, &got)
	})
}

func checkCommandRoundTrip(t *testing.T, c *protocol.Command) {
	t.Helper()
	if c.Kind == protocol.KindUnknown {
		return
	}
	text := clientjson.AppendCommand(nil, c)
	checkLine(t, text)
	var again protocol.Command
	if err := (clientjson.Limits{Depth: -1}).DecodeCommand(text, &again); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if !reflect.DeepEqual(again, *c) {
		t.Fatalf("%s:\n%+v, want\n%+v", text, again, *c)
	}
}

// hasDuplicates reports whether an object in a valid text has two members with one name.
func hasDuplicates(text []byte) bool {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return duplicatesIn(d)
}

func duplicatesIn(d *json.Decoder) bool {
	open, _ := must(d.Token()).(json.Delim)
	if open == 0 {
		return false
	}
	found := false
	names := make(map[string]bool)
	for d.More() {
		if open == '{' {
			name := must(d.Token()).(string)
			found = found || names[name]
			names[name] = true
		}
		found = duplicatesIn(d) || found
	}
	must(d.Token())
	return found
}
