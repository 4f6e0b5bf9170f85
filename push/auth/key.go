package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"github.com/golang-jwt/jwt/v5"
)

// Keys has the keys that check signatures. Its methods may be called concurrently.
type Keys interface {
	// Find returns the keys that may have made a signature with an algorithm: those with the ID kid, or all when kid is empty. They are of the type
	// that the algorithm needs: []byte, *rsa.PublicKey, *ecdsa.PublicKey with the algorithm's curve, or ed25519.PublicKey. An error that is an
	// *[Error] is the reason for which the token is refused; any other says that the keys cannot be had at the moment.
	Find(ctx context.Context, algorithm, kid string) ([]any, error)
}

// MostKeys is how many keys are tried for one token.
const MostKeys = 16

// The smallest and the largest keys that are accepted.
const (
	MinSecretBytes = 32   // RFC 7518 §3.2, for HS256
	MinRSABits     = 2048 // RFC 7518 §3.3
	MaxRSABits     = 8192 // a signature takes sixteen times as long to check as one of 2048 bits
)

// family is the kind of key that an algorithm needs.
type family uint8

const (
	hmacKey family = iota
	rsaKey
	p256Key
	p384Key
	p521Key
	ed25519Key
)

// algorithm is one that can be accepted: how it checks a signature, and the kind of key that it needs.
type algorithm struct {
	jwt.SigningMethod
	family family
}

var algorithms = []algorithm{
	{jwt.SigningMethodHS256, hmacKey},
	{jwt.SigningMethodHS384, hmacKey},
	{jwt.SigningMethodHS512, hmacKey},
	{jwt.SigningMethodRS256, rsaKey},
	{jwt.SigningMethodRS384, rsaKey},
	{jwt.SigningMethodRS512, rsaKey},
	{strict(jwt.SigningMethodPS256), rsaKey},
	{strict(jwt.SigningMethodPS384), rsaKey},
	{strict(jwt.SigningMethodPS512), rsaKey},
	{jwt.SigningMethodES256, p256Key},
	{jwt.SigningMethodES384, p384Key},
	{jwt.SigningMethodES512, p521Key},
	{jwt.SigningMethodEdDSA, ed25519Key},
}

// strict returns a method that accepts only salts as long as the hash, as RFC 7518 §3.5 asks. The method of the module accepts all lengths.
func strict(m *jwt.SigningMethodRSAPSS) jwt.SigningMethod {
	return &jwt.SigningMethodRSAPSS{SigningMethodRSA: m.SigningMethodRSA, Options: m.Options}
}

// find returns the algorithm with a name.
func find(name string) (algorithm, bool) {
	i := slices.IndexFunc(algorithms, func(a algorithm) bool { return a.Alg() == name })
	if i < 0 {
		return algorithm{}, false
	}
	return algorithms[i], true
}

// Algorithms returns the names of all algorithms that can be accepted.
func Algorithms() []string {
	names := make([]string, len(algorithms))
	for i, a := range algorithms {
		names[i] = a.Alg()
	}
	return names
}

// IsSymmetric reports whether the key that checks signatures of an algorithm is also the one that makes them: a secret.
func IsSymmetric(name string) bool {
	a, ok := find(name)
	return ok && a.family == hmacKey
}

// Fits reports whether a key is of the type that an algorithm needs.
func Fits(name string, key any) bool {
	f, ok := familyOf(key)
	a, known := find(name)
	return ok && known && a.family == f
}

func familyOf(key any) (family, bool) {
	switch k := key.(type) {
	case []byte:
		return hmacKey, true
	case *rsa.PublicKey:
		return rsaKey, true
	case ed25519.PublicKey:
		return ed25519Key, true
	case *ecdsa.PublicKey:
		switch k.Curve.Params().Name {
		case "P-256":
			return p256Key, true
		case "P-384":
			return p384Key, true
		case "P-521":
			return p521Key, true
		}
	}
	return 0, false
}

// CheckPublicKey returns an error if a public key is too small or too large, not possible, or of a type that no algorithm has.
func CheckPublicKey(key any) error {
	if k, ok := key.(*rsa.PublicKey); ok {
		switch bits := k.N.BitLen(); {
		case bits < MinRSABits:
			return fmt.Errorf("the RSA key has %d bits, at least %d are needed", bits, MinRSABits)
		case bits > MaxRSABits:
			return fmt.Errorf("the RSA key has %d bits, at most %d are allowed", bits, MaxRSABits)
		case k.N.Bit(0) == 0 || k.E < 3 || k.E%2 == 0:
			return errors.New("it is no RSA key: its modulus or its exponent is even, or the exponent is 1")
		}
	}
	if f, ok := familyOf(key); !ok || f == hmacKey {
		return fmt.Errorf("the key is of a type that is not supported (%T): use RSA, ECDSA with P-256, P-384 or P-521, or Ed25519", key)
	}
	return nil
}

// static is keys without IDs, which never change.
type static []any

// Find implements [Keys]. A kid has no effect: the application may name its keys as it likes.
func (s static) Find(_ context.Context, algorithm, _ string) ([]any, error) {
	var fitting []any
	for _, key := range s {
		if Fits(algorithm, key) {
			fitting = append(fitting, key)
		}
	}
	if len(fitting) == 0 {
		return nil, &Error{UnknownKey, fmt.Errorf("there is no key for the algorithm %s", algorithm)}
	}
	return fitting, nil
}

// Secret returns the keys of the algorithms HS256, HS384 and HS512: each secret is tried, at most MostKeys. It copies the secrets.
func Secret(secrets ...[]byte) (Keys, error) {
	var keys static
	for _, secret := range secrets {
		if len(secret) < MinSecretBytes {
			return nil, fmt.Errorf("auth: the secret has %d bytes, at least %d are needed", len(secret), MinSecretBytes)
		}
		keys = append(keys, slices.Clone(secret))
	}
	return keys, nil
}

// ParsePEM returns the public keys of a PEM file: blocks "PUBLIC KEY", "RSA PUBLIC KEY" and "CERTIFICATE", at most MostKeys. Several serve while
// keys are exchanged: each is tried.
func ParsePEM(data []byte) (Keys, error) {
	var keys static
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		key, err := parseBlock(block)
		if err == nil {
			err = CheckPublicKey(key)
		}
		if err != nil {
			return nil, fmt.Errorf("auth: block %d of the PEM file: %w", len(keys)+1, err)
		}
		if keys = append(keys, key); len(keys) > MostKeys {
			return nil, fmt.Errorf("auth: the PEM file has more than %d keys", MostKeys)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("auth: the file has no PEM block with a public key")
	}
	return keys, nil
}

func parseBlock(block *pem.Block) (any, error) {
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return certificate.PublicKey, nil
	case "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY":
		return nil, errors.New("it is a private key, which a node must not have: give it the public key")
	}
	return nil, fmt.Errorf("its type %q is not that of a public key", block.Type)
}

// Join returns the keys of several sources: an algorithm gets those of the first source that has one for it. If none has, and some cannot be asked
// at the moment, the error says so.
func Join(sources ...Keys) Keys { return joined(sources) }

type joined []Keys

// Find implements [Keys].
func (j joined) Find(ctx context.Context, algorithm, kid string) ([]any, error) {
	var refused error = &Error{UnknownKey, errors.New("there are no keys")}
	for _, source := range j {
		keys, err := source.Find(ctx, algorithm, kid)
		if err == nil {
			return keys, nil
		}
		if e := new(Error); errors.As(refused, &e) && e.Reason == UnknownKey { // a source that failed counts more than one without the key
			refused = err
		}
	}
	return nil, refused
}
