package session_test

import (
	"testing"

	"github.com/sluice-push/sluice/session"
)

// Ends are watched of peers who have said something again and again, over TCP, where there are some sessions: not for one that was dialed.
func TestWhoseEndsAreTold(t *testing.T) {
	for _, tt := range []struct {
		transport        string
		others, messages int
		want             bool
	}{
		{"tcp goroutine", 3, 50, true},
		{"tcp goroutine", 3, 1, false},
		{"tcp goroutine", 0, 50, false},
		{"unix goroutine", 3, 50, false},
	} {
		f := newFixture(t, transportOf(t, tt.transport), line, echo(), nil)
		for range tt.others {
			echoes(t, f.dial(), "hello\n")
		}
		for range tt.messages {
			echoes(t, f.client, "hello\n")
		}
		if got := session.Told(f.s); got != tt.want {
			t.Errorf("%s, %d others, %d messages: told %v", tt.transport, tt.others, tt.messages, got)
		}
	}
}
