package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluice-push/sluice/push/auth"
	"github.com/sluice-push/sluice/push/config"
)

// Tokens are checked with the keys that the files have now, without a restart; the previous secret is accepted besides. A file that cannot be used
// changes nothing.
func TestKeysAreReadAgain(t *testing.T) {
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one, two, three := strings.Repeat("1", 32), strings.Repeat("2", 33), strings.Repeat("3", 34)
	first, second := pemKey(t, 1), pemKey(t, 2)
	write("secret", one+"\n")
	write("public", first)
	block := config.JWT{
		Algorithms: []string{"HS256", "EdDSA"}, SecretFile: path("secret"), PreviousSecretFile: path("previous"), PublicKeyFile: path("public"),
	}
	read := func() (auth.Keys, error) { return readKeys(&block) }
	keys, err := newFileKeys("auth.jwt", 0, slog.New(slog.DiscardHandler), read, block.SecretFile, block.PreviousSecretFile, block.PublicKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	v, err := auth.NewVerifier(auth.Options{Algorithms: block.Algorithms, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(name string, accepted ...string) {
		t.Helper()
		tokens := map[string]any{one: []byte(one), two: []byte(two), three: []byte(three), first: seedKey(1), second: seedKey(2)}
		for key, signer := range tokens {
			method := jwt.SigningMethod(jwt.SigningMethodHS256)
			if _, ok := signer.(ed25519.PrivateKey); ok {
				method = jwt.SigningMethodEdDSA
			}
			token, err := jwt.NewWithClaims(method, jwt.MapClaims{"sub": "ann", "exp": time.Now().Add(time.Hour).Unix()}).SignedString(signer)
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Contains(strings.Join(accepted, " "), key)
			if _, err := v.Connection(t.Context(), token); (err == nil) != want {
				t.Errorf("%s: a token of %.40q: %v, want it accepted: %t", name, key, err, want)
			}
		}
	}
	expect("at first", one, first)
	write("previous", one)
	write("secret", two)
	expect("exchanged", one, two, first)
	write("previous", "")
	expect("done", two, first)
	write("previous", "short")
	write("secret", three)
	expect("not valid", two, first)
	if err := os.Remove(path("previous")); err != nil {
		t.Fatal(err)
	}
	expect("valid again", three, first)
	write("public", first+second)
	expect("two public keys", three, first, second)
	write("public", "no key")
	expect("no public key", three, first, second)
	write("public", second)
	expect("the other public key", three, second)
}

// seedKey returns a private key, always the same for a number.
func seedKey(n byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return ed25519.NewKeyFromSeed(seed)
}

// pemKey returns the public key of seedKey in PEM.
func pemKey(t *testing.T, n byte) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(seedKey(n).Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}
