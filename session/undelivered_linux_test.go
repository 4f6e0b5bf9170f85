package session_test

import (
	"testing"

	"github.com/sluice-push/sluice/session"
)

// If there is no room for the closing alert of TLS, its bytes do not count as undelivered.
func TestCloseAlertIsNotUndelivered(t *testing.T) {
	f := newFixture(t, transportOf(t, "tls loop"), line, echo(), nil)
	write(t, f.client, "hello\n")
	expect(t, f.client, "hello\n")
	await(t, func() bool { return !f.s.HasQueueOrWriter() })
	if err := session.SendCloseAlert(f.s); err != nil {
		t.Fatal(err)
	}
	f.s.Abort(nil)
	if info := receive(t, f.closed); info.Undelivered != 0 {
		t.Errorf("%d bytes undelivered", info.Undelivered)
	}
}
