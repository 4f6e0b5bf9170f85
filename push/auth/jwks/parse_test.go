package jwks_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/push/auth"
	"github.com/sluice-push/sluice/push/auth/jwks"
)

// encode is base64url without padding.
func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// number is a number as a key has it.
func number(n int64) string { return encode(big.NewInt(n).Bytes()) }

// member is one more member of a key.
type member struct{ name, value string }

// entry returns a key of a set, with more members.
func entry(key any, more ...member) string {
	m := make(map[string]string)
	switch k := key.(type) {
	case *rsa.PublicKey:
		m["kty"], m["n"], m["e"] = "RSA", encode(k.N.Bytes()), number(int64(k.E))
	case *ecdsa.PublicKey:
		size := (k.Curve.Params().BitSize + 7) / 8
		point, err := k.Bytes()
		if err != nil {
			panic(err)
		}
		m["kty"], m["crv"], m["x"], m["y"] = "EC", k.Curve.Params().Name, encode(point[1:1+size]), encode(point[1+size:])
	case ed25519.PublicKey:
		m["kty"], m["crv"], m["x"] = "OKP", "Ed25519", encode(k)
	}
	for _, e := range more {
		m[e.name] = e.value
	}
	text, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// set returns a set of keys.
func set(entries ...string) string { return `{"keys":[` + strings.Join(entries, ",") + `]}` }

func mustEC(curve elliptic.Curve) *ecdsa.PublicKey {
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		panic(err)
	}
	return &key.PublicKey
}

func mustRSA(bits int) *rsa.PublicKey {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	return &key.PublicKey
}

// rsaKey is the same in all tests, because it takes long to make.
var rsaKey = sync.OnceValue(func() *rsa.PublicKey { return mustRSA(2048) })

func mustEd25519() ed25519.PublicKey {
	key, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

func ExampleParse() {
	keys, skipped, err := jwks.Parse([]byte(`{"keys":[
		{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"2026"},
		{"kty":"oct","k":"c2VjcmV0","kid":"oops"}
	]}`))
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s: %T\n", keys[0].ID, keys[0].Public)
	fmt.Println(skipped[0])
	// Output:
	// 2026: ed25519.PublicKey
	// key 2 (kid "oops"): it is a secret, which a set for the public must not have
}

// Keys of all types come back, with what says what they are for.
func TestParse(t *testing.T) {
	p256, p384, p521, ed := mustEC(elliptic.P256()), mustEC(elliptic.P384()), mustEC(elliptic.P521()), mustEd25519()
	entries := []string{
		entry(rsaKey(), member{"kid", "a"}, member{"alg", "PS256"}, member{"use", "sig"}, member{"x5t", "ignored"}), entry(p256, member{"kid", "b"}), entry(p384), entry(p521),
		entry(ed, member{"kid", "a"}, member{"alg", "EdDSA"}),
	}
	keys, skipped, err := jwks.Parse([]byte(set(entries...)))
	if err != nil || len(skipped) > 0 || len(keys) != 5 {
		t.Fatalf("%v, %v, %v", keys, skipped, err)
	}
	for i, want := range []jwks.Key{{"a", "PS256", rsaKey()}, {"b", "", p256}, {"", "", p384}, {"", "", p521}, {"a", "EdDSA", ed}} {
		got := keys[i]
		if got.ID != want.ID || got.Algorithm != want.Algorithm || !same(got.Public, want.Public) {
			t.Errorf("key %d is %+v, want %+v", i, got, want)
		}
	}
	for _, ops := range []string{`["verify"]`, `["sign","verify"]`, `[]`, `null`} {
		text := strings.Replace(entry(ed), "{", `{"key_ops":`+ops+`,`, 1)
		if _, _, err := jwks.Parse([]byte(set(text))); err != nil {
			t.Errorf("key_ops %s: %v", ops, err)
		}
	}
}

// same reports whether two public keys are the same.
func same(a, b any) bool {
	switch k := a.(type) {
	case *rsa.PublicKey:
		other, ok := b.(*rsa.PublicKey)
		return ok && k.Equal(other)
	case *ecdsa.PublicKey:
		other, ok := b.(*ecdsa.PublicKey)
		return ok && k.Equal(other)
	case ed25519.PublicKey:
		other, ok := b.(ed25519.PublicKey)
		return ok && k.Equal(other)
	}
	return false
}

// A key that cannot be used, or must not be, is left out, and the reason has the word. The others of the set serve.
func TestParseLeavesOut(t *testing.T) {
	p256, p384, ed := mustEC(elliptic.P256()), mustEC(elliptic.P384()), mustEd25519()
	even := &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), 2047), E: 65537}
	huge := &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 8192, 1), E: 65537}
	for _, tt := range []struct{ what, entry, word string }{
		{"secret", `{"kty":"oct","k":"` + strings.Repeat("A", 43) + `","alg":"HS256"}`, "secret"},
		{"secret without k", `{"kty":"oct"}`, "secret"},
		{"unknown type", `{"kty":"AKP"}`, "unknown"},
		{"no type", `{}`, "unknown"},
		{"not an object", `1`, "key 1"},
		{"null", `null`, "unknown"},
		{"kid of another type", `{"kty":"OKP","kid":1}`, "key 1"},
		{"long kid", entry(ed, member{"kid", strings.Repeat("k", 256)}), "256 bytes"},
		{"use enc", entry(p256, member{"use", "enc"}), "signatures"},
		{"use unknown", entry(p256, member{"use", "Sig"}), "signatures"},
		{"key_ops", strings.Replace(entry(ed), "{", `{"key_ops":["sign","encrypt"],`, 1), "key_ops"},
		{"key_ops of another type", strings.Replace(entry(ed), "{", `{"key_ops":"verify",`, 1), "key 1"},
		{"private EC key", entry(p256, member{"d", "AAAA"}), "private"},
		{"private RSA key", entry(rsaKey(), member{"d", "AAAA"}), "private"},
		{"private Ed25519 key", entry(ed, member{"d", "AAAA"}), "private"},
		{"alg none", entry(ed, member{"alg", "none"}), "algorithm"},
		{"alg of another type", entry(rsaKey(), member{"alg", "ES256"}), "algorithm"},
		{"alg of another curve", entry(p256, member{"alg", "ES384"}), "algorithm"},
		{"alg of secrets", entry(rsaKey(), member{"alg", "HS256"}), "algorithm"},
		{"alg of encryption", entry(rsaKey(), member{"alg", "RSA-OAEP"}), "algorithm"},
		{"small RSA", entry(mustRSA(1024)), "1024 bits"},
		{"huge RSA", entry(huge), "8193 bits"},
		{"even modulus", entry(even), "no RSA key"},
		{"exponent 1", entry(rsaKey(), member{"e", number(1)}), "no RSA key"},
		{"exponent 2", entry(rsaKey(), member{"e", number(2)}), "no RSA key"},
		{"exponent 2^31+1", entry(rsaKey(), member{"e", number(1<<31 + 1)}), "2^31-1"},
		{"exponent 2^64+65537", entry(rsaKey(), member{"e", encode([]byte{1, 0, 0, 0, 0, 0, 1, 0, 1})}), "2^31-1"},
		{"no exponent", entry(rsaKey(), member{"e", ""}), "e is not a number"},
		{"exponent with padding", entry(rsaKey(), member{"e", "AQAB="}), "e is not a number"},
		{"no modulus", entry(rsaKey(), member{"n", ""}), "n is not a number"},
		{"modulus not base64url", entry(rsaKey(), member{"n", "a+/b"}), "n is not a number"},
		{"modulus 0", entry(rsaKey(), member{"n", "AA"}), "0 bits"},
		{"point not on the curve", entry(p256, member{"y", encode(make([]byte, 32))}), "key 1"},
		{"point at infinity", entry(p256, member{"x", "AA"}, member{"y", "AA"}), "key 1"},
		{"point of another curve", entry(p384, member{"crv", "P-256"}), "x is too long"},
		{"long y", entry(p256, member{"y", encode([]byte(strings.Repeat("y", 33)))}), "y is too long"},
		{"no y", entry(p256, member{"y", ""}), "y is not a number"},
		{"no x", entry(p256, member{"x", ""}), "x is not a number"},
		{"unknown curve", entry(p256, member{"crv", "secp256k1"}), "secp256k1"},
		{"small curve", entry(p256, member{"crv", "P-224"}), "P-224"},
		{"X25519", entry(ed, member{"crv", "X25519"}), "X25519"},
		{"Ed448", entry(ed, member{"crv", "Ed448"}), "Ed448"},
		{"short Ed25519", entry(ed, member{"x", encode(ed[:31])}), "32 bytes"},
		{"long Ed25519", entry(ed, member{"x", encode(append(ed[:32:32], 0))}), "32 bytes"},
		{"Ed25519 not base64url", entry(ed, member{"x", "!"}), "32 bytes"},
		{"long texts", entry(ed, member{"crv", strings.Repeat("c", 10000)}), "unknown"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			keys, skipped, err := jwks.Parse([]byte(set(tt.entry, entry(ed, member{"kid", "good"}))))
			if err != nil || len(keys) != 1 || keys[0].ID != "good" || len(skipped) != 1 || !strings.Contains(skipped[0].Error(), tt.word) {
				t.Errorf("%v, %v, %v", keys, skipped, err)
			}
			if len(skipped) == 1 && len(skipped[0].Error()) > 300 {
				t.Errorf("the reason has %d bytes", len(skipped[0].Error()))
			}
			keys, _, err = jwks.Parse([]byte(set(tt.entry)))
			if err == nil || len(keys) > 0 || !strings.Contains(err.Error(), tt.word) {
				t.Errorf("alone: %v, %v", keys, err)
			}
		})
	}
}

// What is no set, or has no key, is an error.
func TestParseErrors(t *testing.T) {
	good := entry(mustEd25519())
	for what, text := range map[string]string{
		"empty": "", "text": "<html>", "list": "[" + good + "]", "a key": good, "null": "null", "number": "1", "no keys": `{}`, "empty set": `{"keys":[]}`,
		"keys null": `{"keys":null}`, "keys is an object": `{"keys":{}}`, "half": set(good)[:20], "more": set(good) + "x", "deep": `{"keys":` + strings.Repeat("[", 100000),
		"too many": set(strings.Split(strings.Repeat(good+"\n", jwks.MaxKeys+1), "\n")[:jwks.MaxKeys+1]...),
	} {
		if keys, _, err := jwks.Parse([]byte(text)); err == nil {
			t.Errorf("%s: %v", what, keys)
		}
	}
	if keys, _, err := jwks.Parse([]byte(set(strings.Split(strings.Repeat(good+"\n", jwks.MaxKeys), "\n")[:jwks.MaxKeys]...))); err != nil || len(keys) != jwks.MaxKeys {
		t.Errorf("%d keys: %d, %v", jwks.MaxKeys, len(keys), err)
	}
}

// FuzzParse checks that what comes back can be used, and that nothing panics.
func FuzzParse(f *testing.F) {
	f.Add([]byte(set(entry(rsaKey(), member{"alg", "RS256"}), entry(mustEC(elliptic.P256()), member{"kid", "b"}), entry(mustEd25519()), `{"kty":"oct","k":"AAAA"}`)))
	f.Add([]byte(set(entry(mustEC(elliptic.P521())), entry(mustEC(elliptic.P384()), member{"d", "AA"}), `{"kty":"RSA","n":"AQ","e":"AQ","use":"enc"}`)))
	f.Add([]byte(`{"keys":[null,1,[],{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, _, err := jwks.Parse(data)
		if (err == nil) != (len(keys) > 0) {
			t.Errorf("%d keys, and the error is %v", len(keys), err)
		}
		for _, k := range keys {
			if err := auth.CheckPublicKey(k.Public); err != nil {
				t.Errorf("key %+v: %v", k, err)
			}
			for _, name := range auth.Algorithms() {
				if auth.Fits(name, k.Public) && auth.IsSymmetric(name) {
					t.Errorf("key %+v fits %s", k, name)
				}
			}
		}
	})
}
