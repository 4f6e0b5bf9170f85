package auth_test

import (
	"crypto/dsa" //nolint:staticcheck // a key that has to be refused
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/auth"
)

// block is a block of a PEM file.
func block(kind string, data []byte, err error) string {
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}))
}

func public(tb testing.TB, key any) string {
	tb.Helper()
	data, err := x509.MarshalPKIXPublicKey(key)
	return block("PUBLIC KEY", data, err)
}

func TestParsePEM(t *testing.T) {
	rsaPair, ecPair, edPair := known("RS256"), known("ES256"), known("EdDSA")
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}}
	certificate, certificateErr := x509.CreateCertificate(rand.Reader, template, template, ecPair.public, ecPair.private)
	all := public(t, rsaPair.public) + "text between\n" + public(t, ecPair.public) + public(t, edPair.public)
	for _, tt := range []struct {
		what, file string
		algorithms []string // that have a key
	}{
		{"RSA", public(t, rsaPair.public), []string{"RS256", "RS512", "PS384"}},
		{"RSA, PKCS #1", block("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(rsaPair.public.(*rsa.PublicKey)), nil), []string{"RS256", "PS256"}},
		{"P-256", public(t, ecPair.public), []string{"ES256"}},
		{"P-384", public(t, known("ES384").public), []string{"ES384"}},
		{"P-521", public(t, known("ES512").public), []string{"ES512"}},
		{"Ed25519", public(t, edPair.public), []string{"EdDSA"}},
		{"certificate", block("CERTIFICATE", certificate, certificateErr), []string{"ES256"}},
		{"several", "a comment\n" + all, []string{"RS256", "ES256", "EdDSA"}},
		{"CRLF", strings.ReplaceAll(all, "\n", "\r\n"), []string{"RS256", "ES256", "EdDSA"}},
	} {
		keys, err := auth.ParsePEM([]byte(tt.file))
		if err != nil {
			t.Errorf("%s: %v", tt.what, err)
			continue
		}
		for _, name := range auth.Algorithms() {
			found, err := keys.Find(t.Context(), name, "any kid")
			if slices.Contains(tt.algorithms, name) && (err != nil || len(found) != 1 || !auth.Fits(name, found[0])) {
				t.Errorf("%s: %s has the keys %v, %v", tt.what, name, found, err)
			}
			if auth.IsSymmetric(name) && reasonOf(t, err) != "unknown_key" {
				t.Errorf("%s: %s has the keys %v, %v", tt.what, name, found, err)
			}
		}
	}
}

func TestParsePEMErrors(t *testing.T) {
	ecPrivate := known("ES256").private.(*ecdsa.PrivateKey)
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	x25519, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := public(t, ecPrivate.Public())
	pkcs8, pkcs8Err := x509.MarshalPKCS8PrivateKey(ecPrivate)
	sec1, sec1Err := x509.MarshalECPrivateKey(ecPrivate)
	for _, tt := range []struct{ what, file, word string }{
		{"empty", "", "no PEM block"},
		{"text", "hello", "no PEM block"},
		{"half a block", good[:len(good)/2], "no PEM block"},
		{"private key", block("PRIVATE KEY", pkcs8, pkcs8Err), "private key"},
		{"EC private key", block("EC PRIVATE KEY", sec1, sec1Err), "private key"},
		{"RSA private key", block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(small), nil), "private key"},
		{"encrypted private key", block("ENCRYPTED PRIVATE KEY", []byte("x"), nil), "private key"},
		{"private key after a good one", good + block("PRIVATE KEY", pkcs8, pkcs8Err), "block 2"},
		{"other type", block("EC PARAMETERS", []byte("x"), nil), "EC PARAMETERS"},
		{"small RSA", public(t, small.Public()), "1024 bits"},
		{"P-224", public(t, p224.Public()), "not supported"},
		{"X25519", public(t, x25519.Public()), "not supported"},
		{"garbage in the block", block("PUBLIC KEY", []byte("x"), nil), "block 1"},
		{"garbage in PKCS #1", block("RSA PUBLIC KEY", []byte("x"), nil), "block 1"},
		{"garbage in the certificate", block("CERTIFICATE", []byte("x"), nil), "block 1"},
		{"too many", strings.Repeat(good, auth.MostKeys+1), "more than 16"},
	} {
		keys, err := auth.ParsePEM([]byte(tt.file))
		if err == nil || !strings.Contains(err.Error(), tt.word) || keys != nil {
			t.Errorf("%s: %v", tt.what, err)
		}
	}
	if keys, err := auth.ParsePEM([]byte(strings.Repeat(good, auth.MostKeys))); err != nil {
		t.Errorf("%d keys: %v, %v", auth.MostKeys, keys, err)
	}
}

func TestCheckPublicKey(t *testing.T) {
	n := new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), 2047), big.NewInt(1))
	for _, tt := range []struct {
		what string
		key  any
		word string
	}{
		{"RSA", &rsa.PublicKey{N: n, E: 3}, ""},
		{"a bit too small", &rsa.PublicKey{N: new(big.Int).Rsh(n, 1), E: 3}, "2047 bits"},
		{"8192 bits", &rsa.PublicKey{N: new(big.Int).Add(new(big.Int).Lsh(n, 6144), big.NewInt(1)), E: 3}, ""},
		{"a bit too large", &rsa.PublicKey{N: new(big.Int).Lsh(n, 6145), E: 3}, "8193 bits"},
		{"even modulus", &rsa.PublicKey{N: new(big.Int).Sub(n, big.NewInt(1)), E: 3}, "no RSA key"},
		{"exponent 1", &rsa.PublicKey{N: n, E: 1}, "no RSA key"},
		{"exponent 0", &rsa.PublicKey{N: n}, "no RSA key"},
		{"negative exponent", &rsa.PublicKey{N: n, E: -3}, "no RSA key"},
		{"even exponent", &rsa.PublicKey{N: n, E: 65536}, "no RSA key"},
		{"Ed25519", known("EdDSA").public, ""},
		{"secret", []byte("x"), "not supported"},
		{"nothing", nil, "not supported"},
		{"DSA", &dsa.PublicKey{}, "not supported"},
		{"private key", known("EdDSA").private, "not supported"},
	} {
		err := auth.CheckPublicKey(tt.key)
		if (err == nil) != (tt.word == "") || err != nil && !strings.Contains(err.Error(), tt.word) {
			t.Errorf("%s: %v", tt.what, err)
		}
	}
}

func TestSecret(t *testing.T) {
	secret := []byte(strings.Repeat("s", 32))
	keys, err := auth.Secret(secret)
	if err != nil {
		t.Fatal(err)
	}
	copied := slices.Clone(secret)
	secret[0] = 'x'
	found, err := keys.Find(t.Context(), "HS512", "any kid")
	if err != nil || len(found) != 1 || !slices.Equal(found[0].([]byte), copied) {
		t.Errorf("the secret is %v, %v: it has to be a copy", found, err)
	}
	if _, err := keys.Find(t.Context(), "EdDSA", ""); reasonOf(t, err) != "unknown_key" {
		t.Errorf("a public key is found: %v", err)
	}
	if _, err := auth.Secret(secret[:31]); err == nil {
		t.Error("31 bytes are enough")
	}
}

// An algorithm gets the keys of the first source that has one. If none has, one that failed counts more than one without the key.
func TestJoin(t *testing.T) {
	unknown := &auth.Error{Reason: auth.UnknownKey, Cause: errors.New("unknown")}
	unavailable := &auth.Error{Reason: auth.Unavailable, Cause: errors.New("unavailable")}
	fault := errors.New("fault")
	answer := func(key string, err error) auth.Keys {
		return finder(func(string, string) ([]any, error) { return []any{key}, err })
	}
	for what, tt := range map[string]struct {
		keys auth.Keys
		want string
		err  error
	}{
		"none":             {auth.Join(), "", nil},
		"first":            {auth.Join(answer("a", nil), answer("b", nil)), "a", nil},
		"second":           {auth.Join(answer("a", unknown), answer("b", nil)), "b", nil},
		"after a failure":  {auth.Join(answer("a", unavailable), answer("b", nil)), "b", nil},
		"unknown":          {auth.Join(answer("a", unknown), answer("b", unknown)), "", unknown},
		"unavailable":      {auth.Join(answer("a", unavailable), answer("b", unknown)), "", unavailable},
		"unavailable last": {auth.Join(answer("a", unknown), answer("b", unavailable)), "", unavailable},
		"fault":            {auth.Join(answer("a", fault), answer("b", unknown)), "", fault},
		"fault and more":   {auth.Join(answer("a", fault), answer("b", unavailable)), "", fault},
	} {
		found, err := tt.keys.Find(t.Context(), "HS256", "")
		if tt.want != "" {
			if err != nil || len(found) != 1 || found[0] != tt.want {
				t.Errorf("%s: %v, %v", what, found, err)
			}
			continue
		}
		if found != nil || tt.err != nil && !errors.Is(err, tt.err) || tt.err == nil && reasonOf(t, err) != "unknown_key" {
			t.Errorf("%s: %v, %v", what, found, err)
		}
	}
}

func TestFits(t *testing.T) {
	for _, name := range auth.Algorithms() {
		for other, p := range pairs() {
			sameKind := name[:2] == other[:2] || strings.ContainsAny(name[:1], "RP") && strings.ContainsAny(other[:1], "RP")
			if name[:2] == "ES" {
				sameKind = name == other // each curve has one
			}
			if got := auth.Fits(name, p[0].public); got != sameKind {
				t.Errorf("a key of %s fits %s: %t", other, name, got)
			}
			if auth.Fits(name, p[0].private) && !auth.IsSymmetric(name) {
				t.Errorf("a private key of %s fits %s", other, name)
			}
		}
		if got := auth.IsSymmetric(name); got != (name[:2] == "HS") {
			t.Errorf("%s is symmetric: %t", name, got)
		}
	}
	if auth.Fits("none", []byte("x")) || auth.Fits("", nil) || auth.IsSymmetric("none") || auth.Fits("EdDSA", []byte(make(ed25519.PublicKey, 32))) {
		t.Error("what does not fit fits")
	}
	list := auth.Algorithms()
	list[0] = "none"
	if auth.Algorithms()[0] != "HS256" {
		t.Error("the list of algorithms can be changed")
	}
}
