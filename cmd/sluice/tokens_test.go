package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/admission"
	"github.com/sluice-push/sluice/push/auth"
	"github.com/sluice-push/sluice/push/config"
)

// While too many tokens are checked, others are refused for now: the answer is temporary, so that SDKs come back with the same token. The limit is
// counted; if it runs dry, no token is refused.
func TestBusyTokenChecks(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Auth.JWT.Algorithms, cfg.Auth.JWT.PublicKeyFile = []string{"ES256"}, filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(cfg.Auth.JWT.PublicKeyFile, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	forConnection, err := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"sub": "ann"}).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	forSubscription, err := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"sub": "ann", "channel": "a"}).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, dry := range [][]admission.Name{nil, {admission.TokenChecks}} {
		limits := admission.NewLimits(nil, dry...)
		gate := admission.NewGate(limits, admission.TokenChecks, 1, 0)
		tokens, err := openTokens(cfg, gate, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer tokens.close()
		both := func() [2]error {
			_, errC := tokens.connection(t.Context(), forConnection)
			_, errS := tokens.subscription(t.Context(), forSubscription)
			return [2]error{errC, errS}
		}
		if err := gate.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, err := range both() {
			var e *push.Error
			if isBusy := errors.As(err, &e) && e.Is(push.ErrTooManyRequests) && e.Temporary; isBusy != (dry == nil) || !isBusy && err != nil {
				t.Errorf("dry %v: %v", dry, err)
			}
		}
		gate.Leave()
		if got := both(); got != [2]error{} {
			t.Errorf("dry %v, when there is room: %v", dry, got)
		}
		if n := tokens.refused[auth.Busy].Load(); (n == 2) != (dry == nil) {
			t.Errorf("dry %v: %d are counted as refused", dry, n)
		}
		for _, c := range limits.Counts() {
			if c.Name == admission.TokenChecks && c.Exceeded != 2 {
				t.Errorf("dry %v: the limit was exceeded %d times", dry, c.Exceeded)
			}
		}
	}
}
