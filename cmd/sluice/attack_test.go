package main_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	stdjson "encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	dto "github.com/prometheus/client_model/go"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/push/protocol"
)

// attackSecret is the secret that the node shares with the issuer of tokens.
const attackSecret = "a secret that no attacker knows or guesses"

// fortress is a node that is attacked. It accepts tokens of three algorithms, whose public keys it fetches.
type fortress struct {
	*process
	ecdsa *ecdsa.PrivateKey
	rsa   *rsa.PrivateKey
	lure  *httptest.Server // where forged tokens say that their keys are
	lured atomic.Int64     // requests there
}

func startFortress(t *testing.T) *fortress {
	t.Helper()
	f := new(fortress)
	var err error
	f.ecdsa, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	f.rsa, err = rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	keys, err := stdjson.Marshal(map[string]any{"keys": []any{publicJWK(t, &f.ecdsa.PublicKey, "e"), map[string]string{
		"kty": "RSA", "kid": "r", "n": inBase64(f.rsa.N.Bytes()), "e": inBase64(big.NewInt(int64(f.rsa.E)).Bytes()),
	}}})
	must(t, err)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(keys) }))
	t.Cleanup(provider.Close)
	f.lure = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { f.lured.Add(1) }))
	t.Cleanup(f.lure.Close)
	f.process = startNode(t, "--config", writeFile(t, "config.yaml", fmt.Sprintf(`
auth:
  personal_channel: true
  jwt: {algorithms: [HS256, RS256, ES256], secret: %q, jwks_url: %q, issuer: me, audience: [you]}
api: {keys: [{name: backend, hash: %q, scopes: [publish, control]}]}
tcp: {listen: "127.0.0.1:0"}
ping: {interval: 5m, timeout: 4m} # the innocent client looks at its connection now and then
broker: {kind: memory}
namespaces:
  - {name: "", allow: {subscribe: [user], publish: [user], history: [user], presence: [user]}}
  - {name: subscribe, allow: {subscribe: [user], publish: [api], history: [], presence: []}}
  - {name: publish, allow: {subscribe: [], publish: [user], history: [], presence: []}}
  - {name: history, allow: {subscribe: [], publish: [], history: [user], presence: []}, history: {size: 10}}
  - {name: presence, allow: {subscribe: [], publish: [], history: [], presence: [user]}}
  - {name: nothing, allow: {subscribe: [], publish: [], history: [], presence: []}, history: {size: 10}}
  - {name: secret, private: true, allow: {subscribe: [user], publish: [user], history: [user], presence: [user]}, history: {size: 10}}
`, attackSecret, provider.URL, config.HashKey("key"))))
	return f
}

func inBase64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// publicJWK returns a key as a set of keys has it.
func publicJWK(t *testing.T, key *ecdsa.PublicKey, kid string) map[string]string {
	t.Helper()
	point, err := key.Bytes()
	must(t, err)
	return map[string]string{"kty": "EC", "crv": "P-256", "kid": kid, "x": inBase64(point[1:33]), "y": inBase64(point[33:])}
}

// claims returns those of a good token of ann, with changes.
func claims(changes jwt.MapClaims) jwt.MapClaims {
	all := jwt.MapClaims{"sub": "ann", "iss": "me", "aud": "you", "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range changes {
		all[name] = value
	}
	return all
}

// sign returns a token whose header is changed.
func sign(t *testing.T, m jwt.SigningMethod, key any, header map[string]any, c jwt.Claims) string {
	t.Helper()
	token := jwt.NewWithClaims(m, c)
	for name, value := range header {
		token.Header[name] = value
	}
	text, err := token.SignedString(key)
	must(t, err)
	return text
}

// good returns a token that the node accepts, with changes.
func (f *fortress) good(t *testing.T, changes jwt.MapClaims) string {
	t.Helper()
	return sign(t, jwt.SigningMethodES256, f.ecdsa, map[string]any{"kid": "e"}, claims(changes))
}

// tokenAttack is a token that has to be refused.
type tokenAttack struct {
	name, token string
	code        uint32
	reason      string // the label of sluice_tokens_refused_total; empty: the refusal is not one of a token
}

// unknownKey is the reason for which a token is refused whose key is not in the set. If the set was fetched in the last seconds, the node fetches it later:
// it then says that the key cannot be had at the moment, with the temporary error 100.
const unknownKey = "unknown_key"

// tokenAttacks are on the claims and the signature of the connection token.
func (f *fortress) tokenAttacks(t *testing.T) []tokenAttack {
	t.Helper()
	es, hs := jwt.SigningMethodES256, jwt.SigningMethodHS256
	good := f.good(t, nil)
	parts := strings.Split(good, ".")
	der, err := x509.MarshalPKIXPublicKey(&f.rsa.PublicKey)
	must(t, err)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	ago := time.Now().Add(-time.Hour).Unix()
	deep := claims(jwt.MapClaims{"info": stdjson.RawMessage(strings.Repeat("[", 1000) + strings.Repeat("]", 1000))})
	return []tokenAttack{
		{"no token", "", 3500, ""},
		{"none", sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil, claims(nil)), 3500, "algorithm"},
		{"none with a signature", inBase64([]byte(`{"alg":"none"}`)) + "." + parts[1] + "." + parts[2], 3500, "algorithm"},
		{"the public key as a secret", sign(t, hs, public, map[string]any{"kid": "r"}, claims(nil)), 3500, "signature"},
		{"the public key as a secret, in DER", sign(t, hs, der, nil, claims(nil)), 3500, "signature"},
		{"another algorithm's key", sign(t, jwt.SigningMethodRS256, f.rsa, map[string]any{"kid": "e"}, claims(nil)), 3500, unknownKey},
		{"an algorithm that is not accepted", sign(t, jwt.SigningMethodHS384, []byte(attackSecret), nil, claims(nil)), 3500, "algorithm"},
		{"a kid that does not exist", sign(t, es, own, map[string]any{"kid": "../../dev/null"}, claims(nil)), 3500, unknownKey},
		{"a kid of a key that is not the signer's", sign(t, es, own, map[string]any{"kid": "e"}, claims(nil)), 3500, "signature"},
		{"jwk", sign(t, es, own, map[string]any{"jwk": publicJWK(t, &own.PublicKey, "e")}, claims(nil)), 3500, "signature"},
		{"jku and x5u", sign(t, es, own, map[string]any{"jku": f.lure.URL, "x5u": f.lure.URL}, claims(nil)), 3500, "signature"},
		{"a critical extension", sign(t, es, f.ecdsa, map[string]any{"crit": []string{"exp"}}, claims(nil)), 3500, "malformed"},
		{"other claims", parts[0] + "." + inBase64([]byte(`{"sub":"root","iss":"me","aud":"you"}`)) + "." + parts[2], 3500, "signature"},
		{"no signature", parts[0] + "." + parts[1] + ".", 3500, "signature"},
		{"expired", f.good(t, jwt.MapClaims{"exp": ago}), 109, "expired"},
		{"of the future", f.good(t, jwt.MapClaims{"nbf": time.Now().Add(time.Hour).Unix()}), 3500, "not_yet_valid"},
		{"another issuer", f.good(t, jwt.MapClaims{"iss": "you"}), 3500, "issuer"},
		{"another audience", f.good(t, jwt.MapClaims{"aud": "me"}), 3500, "audience"},
		{"of a subscription", f.good(t, jwt.MapClaims{"channel": "secret:a"}), 3500, "claims"},
		{"a user of two lines", f.good(t, jwt.MapClaims{"sub": "ann\r\n" + injected + ": 1"}), 3500, "claims"},
		{"a user that is a list", f.good(t, jwt.MapClaims{"sub": []string{"root"}}), 3500, "claims"},
		{"revoked", f.good(t, jwt.MapClaims{"jti": "revoked"}), 3500, "revoked"},
		{"of a blocked user", f.good(t, jwt.MapClaims{"sub": "mallory"}), 3500, "revoked"},
		{"deeply nested claims", sign(t, es, f.ecdsa, nil, deep), 3500, "claims"},
		{"a deeply nested header", inBase64([]byte(`{"alg":"ES256","x":`+strings.Repeat("[", 11_000))) + "." + parts[1] + "." + parts[2], 3500, "malformed"},
		{"two lines", good + "\r\n" + injected + ": 1", 3500, "malformed"},
	}
}

// subscriptionAttacks are tokens for the channel secret:a; the last one is good.
func (f *fortress) subscriptionAttacks(t *testing.T) []tokenAttack {
	t.Helper()
	with := func(changes jwt.MapClaims) string {
		if changes["channel"] == nil {
			changes["channel"] = "secret:a"
		}
		return f.good(t, changes)
	}
	forged := sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil, claims(jwt.MapClaims{"channel": "secret:a"}))
	return []tokenAttack{
		{"for another channel", with(jwt.MapClaims{"channel": "secret:b"}), 103, ""},
		{"for a channel that begins with it", with(jwt.MapClaims{"channel": "secret:"}), 103, ""},
		{"for each channel", with(jwt.MapClaims{"channel": "*"}), 103, ""},
		{"of another user", with(jwt.MapClaims{"sub": "bob"}), 103, ""},
		{"of nobody", with(jwt.MapClaims{"sub": ""}), 103, ""},
		{"of a connection", f.good(t, nil), 103, "claims"},
		{"none", forged, 103, "algorithm"},
		{"expired", with(jwt.MapClaims{"exp": time.Now().Add(-time.Hour).Unix()}), 109, "expired"},
		{"of the future", with(jwt.MapClaims{"nbf": time.Now().Add(time.Hour).Unix()}), 103, "not_yet_valid"},
		{"another audience", with(jwt.MapClaims{"aud": "me"}), 103, "audience"},
		{"revoked", with(jwt.MapClaims{"jti": "revoked"}), 103, "revoked"},
		{"good", with(jwt.MapClaims{}), 0, ""},
	}
}

// TestAttacks: each attack is refused over each carrier, with the code that is documented, and counted. A client that is connected meanwhile misses nothing.
func TestAttacks(t *testing.T) {
	t.Parallel()
	f := startFortress(t)
	callAPI(t, f.process, "revoke_token", `{"uid":"revoked"}`)
	callAPI(t, f.process, "block_user", `{"user":"mallory"}`)
	a := &attacker{t: t, node: f.process}
	connect := &protocol.ConnectRequest{Token: f.good(t, nil)}
	first, v := commandCarrier("websocket", "json").connect(a, connect)
	if v != accepted {
		t.Fatalf("a good token is answered %s", v)
	}
	defer first.close()
	innocent := first.(*commandClient)
	if v := innocent.ask(&protocol.Command{ID: 2, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Channel: "subscribe:innocent"}}); v != accepted {
		t.Fatalf("the innocent client is answered %s", v)
	}
	tokens, subs := f.tokenAttacks(t), f.subscriptionAttacks(t)
	oversized := f.good(t, jwt.MapClaims{"x": strings.Repeat("x", 64<<10)})
	for i, carrier := range attackCarriers() {
		t.Run(carrier.name, func(t *testing.T) {
			a := &attacker{t: t, node: f.process}
			a.presentTokens(&carrier, tokens)
			if c, v := carrier.connect(a, connect); v != accepted {
				t.Errorf("a good token is answered %s", v)
			} else {
				a.attackChannels(&carrier, c, connect, subs)
				c.close()
			}
			if _, v := carrier.connect(a, &protocol.ConnectRequest{Token: oversized}); v == accepted {
				t.Error("an oversized token is accepted")
			}
			f.publishKeyed(t, fmt.Sprint(i))
			if got := innocent.next(); got != fmt.Sprint(i) {
				t.Errorf("the innocent client got %s, want %d", got, i)
			}
		})
	}
	if n := f.lured.Load(); n != 0 {
		t.Errorf("the node has asked an attacker for keys %d times", n)
	}
}

// TestKeysAreAway: while the keys of tokens cannot be fetched, a client is told over each carrier that it may come again, and is counted.
func TestKeysAreAway(t *testing.T) {
	t.Parallel()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("garbage")) }))
	t.Cleanup(provider.Close)
	node := startNode(t, "--config", writeFile(t, "config.yaml", fmt.Sprintf(`
auth: {jwt: {algorithms: [ES256], jwks_url: %q}}
tcp: {listen: "127.0.0.1:0"}
broker: {kind: memory}
`, provider.URL)))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	token := sign(t, jwt.SigningMethodES256, key, map[string]any{"kid": "e"}, claims(nil))
	for _, carrier := range attackCarriers() {
		t.Run(carrier.name, func(t *testing.T) {
			a := &attacker{t: t, node: node}
			a.presentTokens(&carrier, []tokenAttack{{"of an unknown key", token, 100, "unavailable"}})
		})
	}
}

// publishKeyed publishes for the innocent client.
func (f *fortress) publishKeyed(t *testing.T, data string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.public+"/api/publish", strings.NewReader(`{"channel":"subscribe:innocent","data":`+data+`}`))
	must(t, err)
	r.Header.Set("X-API-Key", "key")
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("publish: %s", answer.Status)
	}
}

// presentTokens connects with each token.
func (a *attacker) presentTokens(carrier *attackCarrier, attacks []tokenAttack) {
	before := a.node.scrape()
	reasons, ended := map[string]float64{}, 0.0
	for _, attack := range attacks {
		c, v := carrier.connect(a, &protocol.ConnectRequest{Token: attack.token})
		if want := carrier.says(attack.code); v != want && (attack.reason != unknownKey || v != carrier.says(100)) {
			a.t.Errorf("%s: %s, want %s", attack.name, v, want)
		}
		if c != nil {
			c.close()
		}
		if attack.reason != "" {
			reasons[attack.reason]++
		}
		if v == carrier.says(3500) {
			ended++
		}
	}
	a.wantCounted(before, func(rise func(name string, labels ...string) float64) error {
		for reason, want := range reasons {
			got := rise("sluice_tokens_refused_total", "reason", reason)
			if reason == unknownKey {
				got += rise("sluice_tokens_refused_total", "reason", "unavailable")
			}
			if got != want {
				return fmt.Errorf("%v tokens are counted as refused for the reason %s, want %v", got, reason, want)
			}
		}
		name, want := "sluice_disconnects_total", ended
		labels := []string{"transport", carrier.transport, "code", "3500"}
		if carrier.isOneWay {
			name, labels, want = "sluice_connections_refused_total", []string{"reason", "client"}, float64(len(attacks))
		}
		if got := rise(name, labels...); got != want {
			return fmt.Errorf("%s%v has risen by %v, want %v", name, labels, got, want)
		}
		return nil
	})
}

// wantCounted waits until the node has counted what it refused since a scrape.
func (a *attacker) wantCounted(before map[string]*dto.MetricFamily, check func(rise func(name string, labels ...string) float64) error) {
	a.t.Helper()
	if a.t.Failed() {
		return // what was not refused is not counted
	}
	var err error
	for ctx := testwait.Context(a.t); ctx.Err() == nil; {
		now := a.node.scrape()
		if err = check(func(name string, labels ...string) float64 {
			return metric(now[name], labels...) - metric(before[name], labels...)
		}); err == nil {
			return
		}
	}
	a.t.Error(err)
}

// next returns the data of the next publication.
func (c *commandClient) next() string {
	c.t.Helper()
	for {
		var r protocol.Reply
		must(c.t, c.conn.Receive(c.t.Context(), &r))
		if r.Kind == protocol.KindPush && r.Push.Kind == protocol.PushPublication {
			return string(r.Push.Publication.Data)
		}
	}
}
