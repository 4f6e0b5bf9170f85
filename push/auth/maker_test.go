package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluice-push/sluice/push/auth"
)

// now is the time of all tests.
var now = time.Unix(1_800_000_000, 0)

// pair is a key that makes signatures of an algorithm, and the one that checks them.
type pair struct{ private, public any }

// newPair returns a new pair of keys for an algorithm.
func newPair(algorithm string) pair {
	var p pair
	var err error
	switch algorithm {
	case "RS256", "RS384", "RS512", "PS256", "PS384", "PS512":
		var key *rsa.PrivateKey
		key, err = rsa.GenerateKey(rand.Reader, 2048)
		p = pair{key, key.Public()}
	case "ES256", "ES384", "ES512":
		curve := map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()}[algorithm]
		var key *ecdsa.PrivateKey
		key, err = ecdsa.GenerateKey(curve, rand.Reader)
		p = pair{key, key.Public()}
	case "EdDSA":
		var public ed25519.PublicKey
		var private ed25519.PrivateKey
		public, private, err = ed25519.GenerateKey(rand.Reader)
		p = pair{private, public}
	default:
		secret := make([]byte, 64)
		_, err = rand.Read(secret)
		p = pair{secret, secret}
	}
	if err != nil {
		panic(err)
	}
	return p
}

// pairs has two pairs of keys for each algorithm: one that the verifiers of tests know, and one that they do not know. RSA keys take long to make,
// and serve several algorithms.
var pairs = sync.OnceValue(func() map[string][2]pair {
	out := make(map[string][2]pair)
	rsaPairs := [2]pair{newPair("RS256"), newPair("RS256")}
	for _, name := range auth.Algorithms() {
		if name[:2] == "RS" || name[:2] == "PS" {
			out[name] = rsaPairs
			continue
		}
		out[name] = [2]pair{newPair(name), newPair(name)}
	}
	return out
})

// known returns the pair of an algorithm that verifiers of tests know.
func known(algorithm string) pair { return pairs()[algorithm][0] }

// keySet is keys by ID, as a set has them.
type keySet map[string]any

// Find implements [auth.Keys].
func (s keySet) Find(_ context.Context, _, kid string) ([]any, error) {
	var keys []any
	for id, key := range s {
		if kid == "" || kid == id {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// allKeys returns the keys that verifiers know, with the names of their algorithms as IDs.
func allKeys() keySet {
	keys := make(keySet)
	for name, p := range pairs() {
		keys[name] = p[0].public
	}
	return keys
}

// newVerifier returns a verifier that accepts all algorithms; a test may change the options.
func newVerifier(tb testing.TB, change ...func(*auth.Options)) *auth.Verifier {
	tb.Helper()
	o := auth.Options{Algorithms: auth.Algorithms(), Keys: allKeys(), Now: func() time.Time { return now }}
	for _, f := range change {
		f(&o)
	}
	v, err := auth.NewVerifier(o)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// encode is base64url without padding.
func encode[T string | []byte](data T) string {
	return base64.RawURLEncoding.EncodeToString([]byte(data))
}

// sign returns a token with a header and claims as they are, signed with an algorithm and a key.
func sign(tb testing.TB, algorithm string, key any, header, claims string) string {
	tb.Helper()
	text := encode(header) + "." + encode(claims)
	signature, err := jwt.GetSigningMethod(algorithm).Sign(text, key)
	if err != nil {
		tb.Fatal(err)
	}
	return text + "." + encode(signature)
}

// make256 returns a token that is signed with HS256 and the known secret.
func make256(tb testing.TB, claims string) string {
	tb.Helper()
	return sign(tb, "HS256", known("HS256").private, `{"alg":"HS256"}`, claims)
}

// reasonOf returns why a token was refused, "accepted" if it was not, and fails the test if the error is none of the package.
func reasonOf(tb testing.TB, err error) string {
	tb.Helper()
	if err == nil {
		return "accepted"
	}
	var refused *auth.Error
	if !errors.As(err, &refused) {
		tb.Fatalf("the error %v is not an *auth.Error", err)
	}
	return refused.Reason.String()
}

func mustJSON(tb testing.TB, value any) string {
	tb.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

func ExampleVerifier_Connection() {
	secret := []byte("an example of a secret that nobody must know")
	keys, err := auth.Secret(secret)
	if err != nil {
		panic(err)
	}
	verifier, err := auth.NewVerifier(auth.Options{Algorithms: []string{"HS256"}, Keys: keys})
	if err != nil {
		panic(err)
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "ann", "channels": []string{"news"}}).SignedString(secret)
	if err != nil {
		panic(err)
	}
	connection, err := verifier.Connection(context.Background(), token)
	fmt.Println(connection.User, connection.Subscriptions[0].Channel, err)

	_, err = verifier.Connection(context.Background(), strings.ToUpper(token))
	var refused *auth.Error
	fmt.Println(errors.As(err, &refused), refused.Reason)
	// Output:
	// ann news <nil>
	// true malformed
}
