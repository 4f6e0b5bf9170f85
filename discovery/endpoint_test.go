package discovery_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/discovery"
)

func TestCheck(t *testing.T) {
	for _, e := range []discovery.Endpoint{
		{Address: "a:1"}, {Address: "[::1]:65535", Weight: discovery.MaxWeight}, {Address: "unix:/run/a.sock"}, {Address: "example.com:http-80:1"},
	} {
		if err := e.Check(); (err == nil) == strings.Contains(e.Address, "http") {
			t.Errorf("%+v: %v", e, err)
		}
	}
	for _, e := range []discovery.Endpoint{
		{},
		{Address: "a"},
		{Address: ":1"},
		{Address: "a:0"},
		{Address: "a:65536"},
		{Address: "a:http"},
		{Address: "unix:"},
		{Address: "a:1", Weight: -1},
		{Address: "a:1", Weight: discovery.MaxWeight + 1},
	} {
		if err := e.Check(); !errors.Is(err, discovery.ErrEndpoint) || e.Address != "" && !strings.Contains(err.Error(), e.Address) {
			t.Errorf("%+v: %v", e, err)
		}
		if text, err := discovery.Encode(&e); err == nil {
			t.Errorf("%+v is encoded: %s", e, text)
		}
	}
}

func TestNetwork(t *testing.T) {
	for address, want := range map[string][2]string{"a:1": {"tcp", "a:1"}, "unix:/a:1": {"unix", "/a:1"}} {
		network, at := (&discovery.Endpoint{Address: address}).Network()
		if network != want[0] || at != want[1] {
			t.Errorf("%q: %s %s, want %v", address, network, at, want)
		}
	}
}

func TestEncodeDecode(t *testing.T) {
	e := discovery.Endpoint{Address: "a:1", Weight: 7, Zone: "z", Labels: map[string]string{"k": "v"}}
	text, err := discovery.Encode(&e)
	if err != nil || string(text) != `{"address":"a:1","weight":7,"zone":"z","labels":{"k":"v"}}` {
		t.Fatalf("%s, %v", text, err)
	}
	if got, err := discovery.Decode(text); err != nil || !got.Equal(&e) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := discovery.Decode([]byte("a:1")); err != nil || got.Address != "a:1" || got.Share() != discovery.DefaultWeight {
		t.Errorf("only an address: %+v, %v", got, err)
	}
	e.Labels["k"] = strings.Repeat("v", discovery.MaxBytes)
	if _, err := discovery.Encode(&e); !errors.Is(err, discovery.ErrEndpoint) {
		t.Errorf("too long: %v", err)
	}
	for _, text := range []string{"", "{", "{}", `{"address":"a"}`, `{"address":"a:1","weight":"much"}`, strings.Repeat(" ", discovery.MaxBytes+1)} {
		if got, err := discovery.Decode([]byte(text)); !errors.Is(err, discovery.ErrEndpoint) || got.Address != "" {
			t.Errorf("%.20q: %+v, %v", text, got, err)
		}
	}
}

func TestEqual(t *testing.T) {
	e := discovery.Endpoint{Address: "a:1", Zone: "z", Labels: map[string]string{"k": "v"}}
	if same := e; !e.Equal(&same) {
		t.Error("an endpoint is not equal to itself")
	}
	if standard := (discovery.Endpoint{Address: "a:1", Weight: discovery.DefaultWeight, Zone: "z", Labels: e.Labels}); !e.Equal(&standard) {
		t.Error("the default weight is another than zero")
	}
	for _, other := range []discovery.Endpoint{
		{Address: "b:1", Zone: "z", Labels: e.Labels},
		{Address: "a:1", Labels: e.Labels},
		{Address: "a:1", Zone: "z"},
		{Address: "a:1", Zone: "z", Labels: e.Labels, Weight: 1},
	} {
		if e.Equal(&other) {
			t.Errorf("%+v is equal to %+v", e, other)
		}
	}
}

func TestNormalize(t *testing.T) {
	set, err := discovery.Normalize([]discovery.Endpoint{{Address: "c:1"}, {Address: "a:1", Zone: "first"}, {Address: "b"}, {Address: "a:1", Zone: "second"}})
	want := []discovery.Endpoint{{Address: "a:1", Zone: "first"}, {Address: "c:1"}}
	if !errors.Is(err, discovery.ErrEndpoint) || !slices.EqualFunc(set, want, func(a, b discovery.Endpoint) bool { return a.Equal(&b) }) {
		t.Errorf("%+v, %v", set, err)
	}
	if _, err := discovery.Normalize(want); err != nil {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("a:1"))
	f.Add([]byte(`{"address":"unix:/a","weight":7,"zone":"z","labels":{"k":"v"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := discovery.Decode(text)
		if err != nil {
			return
		}
		again, err := discovery.Encode(&e)
		if errors.Is(err, discovery.ErrEndpoint) && len(text) > discovery.MaxBytes/8 {
			return // escapes have made it longer
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := discovery.Decode(again); err != nil || got.Address != strings.ToValidUTF8(e.Address, "\ufffd") {
			t.Errorf("%+v becomes %s and then %+v, %v", e, again, got, err)
		}
	})
}
