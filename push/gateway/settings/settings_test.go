package settings_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway/settings"
)

// A client asks for a bandwidth, and is told what holds and other gateways.
func Example() {
	asked, err := settings.Parse("connect.data", []byte(`{"sluice":{"bandwidth":9000}}`))
	fmt.Println(string(asked.Connected(5000, []string{"wss://b.example.org"})), err)
	// Output: {"sluice":{"bandwidth":5000,"routes":["wss://b.example.org"]}} <nil>
}

// The answer to connect has what holds, if it was asked for or there is a bound, and routes if there are any. A client cannot make up routes.
func TestConnected(t *testing.T) {
	for _, tt := range []struct {
		data      string
		bandwidth int64
		routes    []string
		want      string
	}{
		{``, 0, nil, ``},
		{`{"app":1}`, 0, []string{}, ``},
		{`{"sluice":{"routes":["x"],"channel":"a"}}`, 0, nil, ``},
		{`"text"`, 0, []string{"a", "b"}, `{"sluice":{"routes":["a","b"]}}`},
		{`{"sluice":{"bandwidth":0}}`, 0, nil, `{"sluice":{"bandwidth":0}}`},
		{`{"sluice":{"bandwidth":0,"lost":true,"interval":5}}`, 7, []string{"a"}, `{"sluice":{"bandwidth":7,"routes":["a"]}}`},
		{`[]`, 7, nil, `{"sluice":{"bandwidth":7}}`},
	} {
		asked, err := settings.Parse("connect.data", []byte(tt.data))
		if got := string(asked.Connected(tt.bandwidth, tt.routes)); err != nil || got != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.data, got, err, tt.want)
		}
	}
}

// Settings that cannot hold are refused.
func TestRefused(t *testing.T) {
	for _, data := range []string{`{"sluice":1}`, `{"sluice":{"interval":-1}}`, `{"sluice":{"bandwidth":"x"}}`, `{"sluice":{"channel":5}}`} {
		if _, err := settings.Parse("connect.data", []byte(data)); !errors.Is(err, push.ErrBadRequest) {
			t.Errorf("%s: %v", data, err)
		}
	}
	if _, err := settings.OfInterval(-1); err == nil {
		t.Error("a negative interval is taken")
	}
}
