package command_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/sluice-push/sluice/examples/internal/command"
)

// The bytes are those that the package comment says.
func TestWire(t *testing.T) {
	request := command.AppendRequest(nil, command.Request{Command: command.Connect, ID: 7, Body: []byte("ann")})
	if want := "\x00\x00\x00\x10\x01\x00\x00\x00\x00\x00\x00\x00\x07ann"; string(request) != want {
		t.Errorf("connect is %q, want %q", request, want)
	}
	answer := command.AppendAnswer(nil, command.Answer{Command: command.Submitted, ID: 0x0102030405060708, Result: command.OK})
	if want := "\x00\x00\x00\x0e\x81\x01\x02\x03\x04\x05\x06\x07\x08\x00"; string(answer) != want {
		t.Errorf("an answer is %q, want %q", answer, want)
	}
}

func TestBroken(t *testing.T) {
	tests := []struct {
		msg             string
		request, answer error
	}{
		{"", command.ErrShort, command.ErrShort},
		{"\x01", command.ErrShort, command.ErrUnknown},
		{"\x02\x00\x00\x00\x00\x00\x00\x00", command.ErrShort, command.ErrUnknown},
		{"\x02\x00\x00\x00\x00\x00\x00\x00\x00", nil, command.ErrUnknown},
		{"\x03\x00\x00\x00\x00\x00\x00\x00\x00", command.ErrUnknown, command.ErrUnknown},
		{"\x80", command.ErrUnknown, command.ErrShort},
		{"\x81\x00\x00\x00\x00\x00\x00\x00\x00", command.ErrUnknown, command.ErrShort},
		{"\x81\x00\x00\x00\x00\x00\x00\x00\x00\x00", command.ErrUnknown, nil},
		{"\x81\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", command.ErrUnknown, command.ErrLong},
	}
	for _, tt := range tests {
		if _, err := command.Parse([]byte(tt.msg)); !errors.Is(err, tt.request) {
			t.Errorf("request %q: %v, want %v", tt.msg, err, tt.request)
		}
		if _, err := command.ParseAnswer([]byte(tt.msg)); !errors.Is(err, tt.answer) {
			t.Errorf("answer %q: %v, want %v", tt.msg, err, tt.answer)
		}
	}
}

// Whatever is understood means the same bytes when it is written again.
func FuzzParse(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x07ann"))
	f.Add([]byte("\x81\x01\x02\x03\x04\x05\x06\x07\x08\x00"))
	f.Fuzz(func(t *testing.T, msg []byte) {
		check := func(frame []byte) {
			got, n, err := command.Codec.Decode(frame)
			if err != nil || n != len(frame) || !bytes.Equal(got, msg) {
				t.Errorf("%q became %q, %d of %d bytes, %v", msg, got, n, len(frame), err)
			}
		}
		if r, err := command.Parse(msg); err == nil && len(msg) <= command.MaxFrame-4 {
			check(command.AppendRequest(nil, r))
		}
		if a, err := command.ParseAnswer(msg); err == nil {
			check(command.AppendAnswer(nil, a))
		}
	})
}
