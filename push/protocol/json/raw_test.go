package json_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	clientjson "github.com/sluice-push/sluice/push/protocol/json"
)

// FuzzDecodeReply encodes a decoded reply. The text must be one line, and must not change when it is decoded and encoded again.
func FuzzDecodeReply(f *testing.F) {
	for _, form := range replyForms {
		f.Add([]byte(form.json))
	}
	for _, form := range pushForms {
		f.Add([]byte(`{"push":` + form.json + `}`))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var r protocol.Reply
		if err := clientjson.DecodeReply(line, &r); err != nil {
			var broken *clientjson.SyntaxError
			if !errors.As(err, &broken) {
				t.Fatalf("%q: error is %v", line, err)
			}
			return
		}
		if !json.Valid(line) {
			t.Fatalf("%q passes", line)
		}
		once := clientjson.AppendReply(nil, &r)
		checkLine(t, once)
		var again protocol.Reply
		if err := clientjson.DecodeReply(once, &again); err != nil {
			t.Fatalf("%s: %v", once, err)
		}
		if twice := clientjson.AppendReply(nil, &again); !bytes.Equal(once, twice) {
			t.Fatalf("%s became\n%s", once, twice)
		}
	})
}

// FuzzString encodes any string, and decodes it with encoding/json and with the decoder.
func FuzzString(f *testing.F) {
	for _, s := range []string{
		"", "plain", `"\/`, "\b\f\n\r\t\x00\x1f\x7f", "é\u2028\u2029\u202a😀", "\xff", "a\xe2\x80", "\xed\xa0\x80", "<script>&amp;",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text := clientjson.AppendCommand(nil, &protocol.Command{ID: 1, Kind: protocol.KindPublish, Publish: protocol.PublishRequest{
			Channel: s, Tags: map[string]string{s: s},
		}})
		checkLine(t, text)
		if !utf8.Valid(text) || bytes.ContainsAny(text, "\u2028\u2029") {
			t.Errorf("%q must not stand there as it is", text)
		}
		want := string([]rune(s)) // replaces each invalid byte
		var form struct {
			Publish struct {
				Channel string
				Tags    map[string]string
			}
		}
		if err := json.Unmarshal(text, &form); err != nil {
			t.Fatal(err)
		}
		if form.Publish.Channel != want || form.Publish.Tags[want] != want {
			t.Errorf("%q became %+v", s, form.Publish)
		}
		var c protocol.Command
		if err := clientjson.DecodeCommand(text, &c); err != nil {
			t.Fatal(err)
		}
		if c.Publish.Channel != want || c.Publish.Tags[want] != want {
			t.Errorf("%q became %+v", s, c.Publish)
		}
	})
}

// FuzzCompactData compares with json.Compact. Intended differences: data on one line is not changed, and invalid UTF-8 is refused.
func FuzzCompactData(f *testing.F) {
	for _, s := range []string{
		``, ` `, `1`, ` {"a": [1, 2]} `, "{\n\t\"a\\\"\\\\\" : [ 1 ,\r\n true ]\n}", "\"a\nb\"", "[\n]", "1\n", "\"\xff\"", `[1,]`,
		"\"\u2028\"", strings.Repeat("[", 40) + strings.Repeat("]", 40),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 5000 {
			return // encoding/json has a limit of depth of its own
		}
		before := bytes.Clone(data)
		got, err := clientjson.Limits{Depth: -1}.CompactData(data)
		if !bytes.Equal(data, before) {
			t.Fatalf("%q was changed to %q", before, data)
		}
		if refused := new(clientjson.SyntaxError); errors.As(err, &refused) && refused.IsJSON {
			return // refused by a limit of this package
		}
		if sound := json.Valid(data) && utf8.Valid(data); sound != (err == nil) {
			t.Fatalf("%q: error is %v", data, err)
		}
		if err != nil {
			return
		}
		want := data
		if bytes.ContainsAny(data, "\r\n") {
			var out bytes.Buffer
			if err := json.Compact(&out, data); err != nil {
				t.Fatal(err)
			}
			want = out.Bytes()
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%q became %q, want %q", data, got, want)
		}
	})
}

func TestCompactDataErrors(t *testing.T) {
	for _, tt := range []struct{ data, want string }{
		{"", "protocol: decode data: unexpected end, expected a value at byte 0"},
		{"{\"a\":1}\n{}", "protocol: decode data: unexpected '{', expected the end at byte 8"},
		{nested(129), "protocol: decode data: a value is nested deeper than 128 levels at byte 128"},
		{`"\ud800"`, "protocol: decode data: half of a surrogate pair in a string at byte 1"},
	} {
		if _, err := clientjson.CompactData([]byte(tt.data)); err == nil || err.Error() != tt.want {
			t.Errorf("%q: error is %v, want %s", tt.data, err, tt.want)
		}
	}
}

// TestAllocations bounds the allocations of hot paths: only the strings that are kept.
func TestAllocations(t *testing.T) {
	data := []byte(`{"symbol":"ABC","bid":1.25,"ask":[1,2,3]}`)
	p := &push.Publication{Data: data, Offset: 12345, Key: "ABC", Tags: map[string]string{"venue": "x", "kind": "quote"}}
	buf := make([]byte, 0, 1024)
	var c protocol.Command
	decode := func(line string) func() {
		text := []byte(line)
		return func() {
			if err := clientjson.DecodeCommand(text, &c); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		name string
		most float64
		run  func()
	}{
		{"pong", 0, decode(`{}`)},
		{"ping", 0, decode(`{"id":1,"ping":{}}`)},
		{"send", 0, decode(`{"send":{"data":{"a":[1,2,"b"]}}}`)},
		{"publish", 1, decode(`{"id":1,"publish":{"channel":"quotes:ABC","data":{"a":[1,2,"b"]}}}`)},
		{"publish with key", 2, decode(`{"id":1,"publish":{"channel":"quotes:ABC","data":{"a":[1,2,"b"]},"key":"ABC"}}`)},
		{"subscribe", 1, decode(`{"id":1,"subscribe":{"channel":"quotes:ABC","recoverable":true,"flag":1}}`)},
		{"resume", 2, decode(`{"id":1,"subscribe":{"channel":"quotes:ABC","recover":true,"epoch":"xyz","offset":12}}`)},
		{"publication push", 0, func() { clientjson.AppendPublicationPush(buf, "quotes:ABC", p, clientjson.PushOptions{}) }},
		{"publish reply", 0, func() { clientjson.AppendReply(buf, &protocol.Reply{ID: 5, Kind: protocol.KindPublish}) }},
		{"error reply", 0, func() { clientjson.AppendErrorReply(buf, 5, push.ErrTokenExpired) }},
		{"data on one line", 0, func() {
			if _, err := clientjson.CompactData(data); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if n := testing.AllocsPerRun(100, tt.run); n > tt.most {
				t.Errorf("%v allocations, at most %v are expected", n, tt.most)
			}
		})
	}
}
