package session_test

import (
	"testing"

	"github.com/sluice-push/sluice/session"
)

// The end of TLS, for which there was no room, is nobody's message: nothing that was accepted is undelivered.
func TestAFarewellIsNotUndelivered(t *testing.T) {
	f := newFixture(t, transportOf(t, "tls loop"), line, echo(), nil)
	write(t, f.client, "hello\n")
	expect(t, f.client, "hello\n")
	await(t, func() bool { return !f.s.Holds() })
	if err := session.Farewell(f.s); err != nil {
		t.Fatal(err)
	}
	f.s.Abort(nil)
	if info := receive(t, f.closed); info.Undelivered != 0 {
		t.Errorf("%d bytes undelivered", info.Undelivered)
	}
}
