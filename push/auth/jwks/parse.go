package jwks

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/sluice-push/sluice/push/auth"
)

// MaxKeys is the most keys that a set may have.
const MaxKeys = 256

// Key is one key of a set.
type Key struct {
	ID        string // kid; empty if it has none
	Algorithm string // alg, the only one that it is for; empty if it is for all that its type fits
	Public    any    // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
}

// fits reports whether a token with an algorithm and a key ID may have been signed with the key. A token without an ID may be of any key.
func (k *Key) fits(algorithm, kid string) bool {
	return (kid == "" || k.ID == kid) && (k.Algorithm == "" || k.Algorithm == algorithm) && auth.Fits(algorithm, k.Public)
}

// entry is a key as RFC 7517 and RFC 7518 §6 have it.
type entry struct {
	Type       string   `json:"kty"`
	Use        string   `json:"use"`
	Operations []string `json:"key_ops"`
	Algorithm  string   `json:"alg"`
	ID         string   `json:"kid"`
	Curve      string   `json:"crv"`
	N          string   `json:"n"`
	E          string   `json:"e"`
	X          string   `json:"x"`
	Y          string   `json:"y"`

	Private json.RawMessage `json:"d"` // of all types but oct
}

// Parse returns the keys of a set (RFC 7517 §5) that can check signatures. Others are left out, as §5 asks: those of an unknown type, for another
// use, or with values that are not valid or too weak; skipped says why, for the log. Secrets (oct) and private keys are left out too: what is
// published is no secret.
// An error says that the set as a whole is not one, or that no key of it can be used.
func Parse(data []byte) (keys []Key, skipped []error, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, nil, fmt.Errorf("not a JSON object with keys: %w", err)
	}
	if len(set.Keys) > MaxKeys {
		return nil, nil, fmt.Errorf("the set has %d keys, at most %d are allowed", len(set.Keys), MaxKeys)
	}
	for i, raw := range set.Keys {
		var e entry
		err := json.Unmarshal(raw, &e)
		var public any
		if err == nil {
			public, err = e.public()
		}
		if err == nil {
			err = auth.CheckPublicKey(public)
		}
		if err == nil && e.Algorithm != "" && !auth.Fits(e.Algorithm, public) {
			err = fmt.Errorf("its algorithm %.20q is unknown, or not one for its type", e.Algorithm)
		}
		if err != nil {
			skipped = append(skipped, fmt.Errorf("key %d (kid %.100q): %w", i+1, e.ID, err))
			continue
		}
		keys = append(keys, Key{ID: e.ID, Algorithm: e.Algorithm, Public: public})
	}
	if len(keys) == 0 {
		return nil, skipped, errors.Join(append([]error{errors.New("the set has no key that can check signatures")}, skipped...)...)
	}
	return keys, skipped, nil
}

func (e *entry) public() (any, error) {
	switch {
	case len(e.ID) > auth.MaxIDBytes:
		return nil, fmt.Errorf("its kid has %d bytes, at most %d are allowed", len(e.ID), auth.MaxIDBytes)
	case e.Private != nil:
		return nil, errors.New("it is a private key, which a set for the public must not have: replace it")
	case e.Use != "" && e.Use != "sig":
		return nil, fmt.Errorf("it is not for signatures (use %.20q)", e.Use)
	case len(e.Operations) > 0 && !slices.Contains(e.Operations, "verify"):
		return nil, errors.New("it is not for checking signatures (key_ops)")
	}
	switch e.Type {
	case "RSA":
		return e.rsa()
	case "EC":
		return e.ec()
	case "OKP":
		return e.okp()
	case "oct":
		return nil, errors.New("it is a secret, which a set for the public must not have")
	}
	return nil, fmt.Errorf("its type %.20q is unknown", e.Type)
}

func (e *entry) rsa() (any, error) {
	n, err := number("n", e.N)
	if err != nil {
		return nil, err
	}
	exponent, err := number("e", e.E)
	if err != nil {
		return nil, err
	}
	switch value := exponent.Int64(); {
	case !exponent.IsInt64() || value > 1<<31-1:
		return nil, errors.New("its exponent is larger than 2^31-1")
	default:
		return &rsa.PublicKey{N: n, E: int(value)}, nil // auth.CheckPublicKey looks at the rest
	}
}

func (e *entry) ec() (any, error) {
	curves := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}
	curve := curves[e.Curve]
	if curve == nil {
		return nil, fmt.Errorf("its curve %.20q is unknown", e.Curve)
	}
	size := (curve.Params().BitSize + 7) / 8
	point := []byte{4} // uncompressed, SEC 1 §2.3.3
	for _, c := range [...]struct{ name, text string }{{"x", e.X}, {"y", e.Y}} {
		n, err := number(c.name, c.text)
		if err != nil {
			return nil, err
		}
		if n.BitLen() > 8*size {
			return nil, fmt.Errorf("its %s is too long", c.name)
		}
		point = append(point, n.FillBytes(make([]byte, size))...)
	}
	return ecdsa.ParseUncompressedPublicKey(curve, point)
}

func (e *entry) okp() (any, error) {
	if e.Curve != "Ed25519" {
		return nil, fmt.Errorf("its curve %.20q is unknown", e.Curve)
	}
	x, err := base64.RawURLEncoding.DecodeString(e.X)
	if err != nil || len(x) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("its x is not %d bytes in base64url", ed25519.PublicKeySize)
	}
	return ed25519.PublicKey(x), nil
}

func number(name, text string) (*big.Int, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) == 0 {
		return nil, fmt.Errorf("its %s is not a number in base64url", name)
	}
	return new(big.Int).SetBytes(b), nil
}
