package control_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/hub/control"
)

func Example() {
	m := control.Message{Op: control.Disconnect, User: "ann", Code: 3500, Reason: "invalid token"}
	payload, err := m.Encode()
	fmt.Println(string(payload), err)
	// Output: {"op":"disconnect","user":"ann","code":3500,"reason":"invalid token"} <nil>
}

func TestFits(t *testing.T) {
	ann := &push.ClientInfo{User: "ann", Client: "1"}
	for _, tt := range []struct {
		target control.Target
		want   bool
	}{
		{control.Target{User: "ann"}, true},
		{control.Target{Client: "1"}, true},
		{control.Target{User: "ann", Client: "1"}, true},
		{control.Target{User: "ann", Client: "2"}, false},
		{control.Target{User: "bob", Client: "1"}, false},
		{control.Target{User: "bob"}, false},
		{control.Target{}, false},
	} {
		if got := tt.target.Fits(ann); got != tt.want {
			t.Errorf("%+v fits: %v, want %v", tt.target, got, tt.want)
		}
	}
	if !(control.Target{}.Fits(&push.ClientInfo{Client: "2"})) {
		t.Error("a target without user and client fits clients without a user")
	}
}

func TestRoundTrip(t *testing.T) {
	interval, bandwidth := 5*time.Millisecond, int64(100)
	m := control.Message{
		Op: control.Pace, User: "ann", Client: "1", Channel: "a:b", Except: []string{"2"}, Code: 1, Reason: "x",
		Interval: &interval, Bandwidth: &bandwidth, Message: []byte("hello"),
	}
	payload, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := control.Decode(payload)
	if err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("decoded %+v and %v, want %+v", got, err, m)
	}
	if got, err := control.Decode([]byte(`{"op":"new","later":1}`)); err != nil || got.Op != "new" || !got.Target().IsEmpty() {
		t.Errorf("a message with an unknown field: %+v, %v", got, err)
	}
	if _, err := control.Decode([]byte("{")); err == nil {
		t.Error("half a message was decoded")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"op":"disconnect","user":"ann","code":3500,"reason":""}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		m, err := control.Decode(payload)
		if err != nil {
			return
		}
		again, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := control.Decode(again); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v became %+v, %v", m, got, err)
		}
	})
}
