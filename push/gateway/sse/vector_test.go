package sse_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway/sse"
)

func TestVector(t *testing.T) {
	var v sse.Vector
	for _, step := range []struct {
		channel string
		at      push.Position
		want    string
	}{
		{"a", push.Position{Epoch: "e", Offset: 1}, "a=e:1"},
		{"ns:ü b", push.Position{Epoch: "x&=:%+", Offset: push.MaxOffset}, "a=e:1&ns%3A%C3%BC+b=x%26%3D%3A%25%2B:9007199254740991"},
		{"a", push.Position{Epoch: "e", Offset: 20}, "a=e:20&ns%3A%C3%BC+b=x%26%3D%3A%25%2B:9007199254740991"},
		{"a", push.Position{Epoch: "f", Offset: 3}, "a=f:3&ns%3A%C3%BC+b=x%26%3D%3A%25%2B:9007199254740991"},
		{"ns:ü b", push.Position{}, "a=f:3&ns%3A%C3%BC+b=:0"},
	} {
		v.Move(step.channel, step.at)
		if got := v.String(); got != step.want {
			t.Fatalf("got %q\nwant %q", got, step.want)
		}
	}
}

// TestVectorOfManyChannels: the positions of a client of 128 channels fit, however far apart they are, and of 20 they are short.
func TestVectorOfManyChannels(t *testing.T) {
	for _, tt := range []struct {
		channels, epochs int
		apart            uint64
		most             int
	}{
		{20, 1, 1000, 100}, {128, 1, 1000, 400}, {128, 4, 1 << 30, sse.MaxID}, {128, 1, 1 << 34, sse.MaxID},
	} {
		var v sse.Vector
		want := map[string]push.Position{}
		for i := range tt.channels {
			epoch := fmt.Sprintf("OQROA724IWUORA5BQPJBSMGW%02d", i*tt.epochs/tt.channels)
			at := push.Position{Epoch: epoch, Offset: 1<<40 + tt.apart/uint64(tt.channels)*uint64(i)}
			name := fmt.Sprintf("a namespace with a long name:%03d", i)
			v.Move(name, at)
			want[name] = at
		}
		id := v.String()
		if id == "" || len(id) > tt.most {
			t.Errorf("%+v: an id of %d bytes", tt, len(id))
		}
		if got := sse.ParseVector(id, slices.Collect(maps.Keys(want))...); !maps.Equal(got, want) {
			t.Errorf("%+v: %q is read as %v", tt, id, got)
		}
	}
}

// TestVectorOfOthers: an id that is of other channels, or damaged, or says that it could not be given, is that of a client that missed something.
func TestVectorOfOthers(t *testing.T) {
	var v sse.Vector
	for _, name := range []string{"a", "b"} {
		v.Move(strings.Repeat(name, 80), push.Position{Epoch: "e", Offset: 5})
	}
	id := v.String()
	good := sse.ParseVector(id, strings.Repeat("a", 80), strings.Repeat("b", 80))
	if len(good) != 2 || good[strings.Repeat("b", 80)] != (push.Position{Epoch: "e", Offset: 5}) {
		t.Fatalf("%q is read as %v", id, good)
	}
	for _, id := range []string{"!", "*", id + "A", id[:len(id)-1], id[:5], "*" + id, id + ":e:BA", strings.Replace(id, ":e:", ":*A:", 1)} {
		for _, names := range [][]string{{"a", "c"}, {strings.Repeat("a", 80), strings.Repeat("b", 80)}} {
			got := sse.ParseVector(id, names...)
			if len(got) != 2 || got[names[0]].Epoch != "lost" || got[names[1]].Epoch != "lost" {
				t.Errorf("%q of %d names is read as %v", id, len(names), got)
			}
		}
	}
	if got := sse.ParseVector("!"); len(got) != 0 {
		t.Errorf("of no channels: %v", got)
	}
}

// TestVectorRoundTrip: whatever the names and epochs are, what is written is read again, on one line of plain characters.
func TestVectorRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var v sse.Vector
		want := map[string]push.Position{}
		channels := rapid.SliceOfNDistinct(rapid.StringN(1, 8, 40), 0, 40, rapid.ID).Draw(t, "channels")
		slices.Sort(channels)
		for _, channel := range append(channels, channels...) {
			at := push.Position{Epoch: rapid.SampledFrom([]string{"", "e", "*", "*A", ":", "ü&="}).Draw(t, "epoch"), Offset: rapid.Uint64Max(push.MaxOffset).Draw(t, "offset")}
			v.Move(channel, at)
			want[channel] = at
		}
		id := v.String()
		if len(id) > sse.MaxID {
			t.Fatalf("an id of %d bytes", len(id))
		}
		if strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Fatalf("the id has special characters: %q", id)
		}
		if id == "" {
			return // too long
		}
		if got := sse.ParseVector(id, channels...); !maps.Equal(got, want) {
			t.Fatalf("%q is read as\n%v, not\n%v", id, got, want)
		}
	})
}

func TestParseVector(t *testing.T) {
	for id, want := range map[string]map[string]push.Position{
		"":                         {},
		"a":                        {},
		"a=":                       {},
		"a=e":                      {},
		"a=e:":                     {},
		"a=e:x":                    {},
		"a=e:-1":                   {},
		"=e:1":                     {},
		"a=e:9007199254740992":     {},
		"%zz=e:1":                  {},
		"a=%zz:1":                  {},
		"a=e:1&&b&c=d:2":           {"a": {Epoch: "e", Offset: 1}, "c": {Epoch: "d", Offset: 2}},
		"a=e:1&a=f:2":              {"a": {Epoch: "f", Offset: 2}},
		"a=:1":                     {"a": {Offset: 1}},
		"a=e:1&a=" + long(1100):    {},
		"a=e:1&b=" + long(1000):    {"a": {Epoch: "e", Offset: 1}},
		"42":                       {},
		"\x00=\x00:1\n":            {},
		"a=e:18446744073709551616": {},
	} {
		if got := sse.ParseVector(id); !maps.Equal(got, want) {
			t.Errorf("%q is read as %v, want %v", id, got, want)
		}
	}
}

func long(n int) string { return strings.Repeat("x", n) }

// FuzzParseVector: what is read can be written and read again.
func FuzzParseVector(f *testing.F) {
	for _, seed := range []string{"", "a=e:1", "ns%3Aa=%2B:2&b=:3", "a=e:1&a=e:2", "%=:", "a=e:1&%00=%ff:9", "===:::&&&"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		read := sse.ParseVector(id)
		var v sse.Vector
		names := slices.Sorted(maps.Keys(read))
		for _, channel := range names {
			v.Move(channel, read[channel])
		}
		again := v.String()
		if again == "" {
			return
		}
		if got := sse.ParseVector(again, names...); !maps.Equal(got, read) {
			t.Errorf("%q: %v is written as %q and read as %v", id, read, again, got)
		}
	})
}

// FuzzConnectOf: a request is refused with a reason, or read without reaching out of its place.
func FuzzConnectOf(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `null`, `{"subs":{"a":{"recover":true,"offset":1,"epoch":"e"}}}`, `{"token":"t","data":{"a":[1]}}`, `{},"ping":{}`, `}`,
		`{"subs":5}`, `[]`, `{"subs":{"a":{"offset":-1}}}`, "{\n\"token\":\n1}", `"` + "\xff" + `"`, strings.Repeat("[", 50),
	} {
		f.Add(seed, "a=e:5")
	}
	f.Fuzz(func(t *testing.T, connect, id string) {
		r := &http.Request{URL: &url.URL{RawQuery: url.Values{"cf_connect": {connect}}.Encode()}, Header: http.Header{"Last-Event-Id": {id}}}
		got, err := sse.ConnectOf(r)
		if err != nil {
			if len(err.Error()) == 0 || len(err.Error()) > 200 {
				t.Errorf("refused with %q", err)
			}
			return
		}
		names := slices.Collect(maps.Keys(got.Subs))
		for name, sub := range got.Subs {
			if at, ok := sse.ParseVector(id, names...)[name]; ok && (sub.Position != at || !sub.Recover) {
				t.Errorf("%s begins at %v, not at %v", name, sub.Position, at)
			}
		}
	})
}
