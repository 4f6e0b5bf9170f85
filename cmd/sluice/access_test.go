package main

import (
	"errors"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/config"
)

// A client with a token that nothing can check is not anonymous.
func TestTokensAreNotPassedOver(t *testing.T) {
	for _, insecure := range []bool{false, true} {
		a := newAccess(config.Default(), insecure)
		if _, err := a.authenticate(t.Context(), "", nil); err != nil {
			t.Errorf("insecure %t, no token: %v", insecure, err)
		}
		_, err := a.authenticate(t.Context(), "bogus", nil)
		if (err == nil) != insecure || err != nil && !errors.Is(err, push.DisconnectInvalidToken) {
			t.Errorf("insecure %t, a token: %v", insecure, err)
		}
	}
}
