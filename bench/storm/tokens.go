package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// lifetime is how long tokens are valid: longer than anything that is measured takes.
const lifetime = 12 * time.Hour

// writeTokens makes a key, and with it a token for each of n users. It returns the file of the public key, in PEM, and that of the tokens, one a line.
func writeTokens(folder string, n int) (keyFile, tokenFile string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return "", "", err
	}
	keyFile, tokenFile = filepath.Join(folder, "public.pem"), filepath.Join(folder, "tokens")
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		return "", "", err
	}
	var lines bytes.Buffer
	expires := time.Now().Add(lifetime).Unix()
	for i := range n {
		token, err := sign(key, fmt.Sprintf(`{"sub":"user-%d","jti":"token-%d","exp":%d}`, i, i, expires))
		if err != nil {
			return "", "", err
		}
		lines.WriteString(token)
		lines.WriteByte('\n')
	}
	return keyFile, tokenFile, os.WriteFile(tokenFile, lines.Bytes(), 0o600)
}

// sign returns a JSON Web Token with the claims, signed by ES256: RFC 7515 section 7.1, RFC 7518 section 3.4.
func sign(key *ecdsa.PrivateKey, claims string) (string, error) {
	const size = 32 // of each half of a signature
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		return "", err
	}
	signature := make([]byte, 2*size)
	r.FillBytes(signature[:size])
	s.FillBytes(signature[size:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}
