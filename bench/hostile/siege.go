package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-push/sluice/bench/internal/child"
	"github.com/sluice-push/sluice/bench/internal/node"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// siegeKinds are the attacks of strangers.
func siegeKinds() []string { return []string{"tokens", "halfopen", "halftls", "slowtls"} }

// siege is an attack of strangers on a node of which clients need tokens.
type siege struct {
	kind            string
	strangers, rate int
	length          time.Duration
	sluice          string

	folder string // of the files of keys and tokens
	key    *ecdsa.PrivateKey
	pem    []byte // the certificate and its key
	set    *httptest.Server
}

var siegePhases = [...]string{"before", "elsewhere", "during", "after"}

func (s *siege) run(ctx context.Context) (table *report.Table, err error) {
	table = &report.Table{
		Title: fmt.Sprintf("%s: %s", s.kind, s.scale()),
		Head: []string{
			"", "innocent: p50 ms", "p99", "max", "p99 to elsewhere", "connect p50", "p99", "refused", "descriptors", "MB", "bad tokens a second",
		},
		Note: "Elsewhere: the same attack on another node of this machine, whose attackers take processors from all. Descriptors and memory are those " +
			"of the innocent client's node at the end of the phase.",
	}
	if s.folder, err = os.MkdirTemp("", "sluice-siege-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.folder)) }()
	if err := s.makeKeys(); err != nil {
		return nil, err
	}
	defer s.set.Close()
	attacked, err := s.start()
	if err != nil {
		return nil, err
	}
	defer attacked.node.Stop()
	other, err := s.start()
	if err != nil {
		return nil, err
	}
	defer other.node.Stop()
	var elsewhere innocence
	for _, phase := range siegePhases {
		at := map[string]*besieged{"elsewhere": other, "during": attacked}[phase]
		seen, err := s.phase(ctx, attacked, at)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", phase, err)
		}
		in, u := seen.innocence, seen.usage
		if phase == "elsewhere" {
			elsewhere = in
		}
		ratio := ""
		if phase == "during" {
			ratio = fmt.Sprintf("%.2f", float64(percentile(in.answers, 99))/float64(max(percentile(elsewhere.answers, 99), 1)))
		}
		table.Add(phase, ms(in.answers, 50), ms(in.answers, 99), ms(in.answers, 100), ratio, ms(in.connects, 50), ms(in.connects, 99),
			strconv.Itoa(in.refused), strconv.Itoa(u.descriptors), fmt.Sprint(u.resident/1e6), fmt.Sprintf("%.0f", seen.refused))
	}
	return table, nil
}

// scale says how large the attack is.
func (s *siege) scale() string {
	switch {
	case s.kind != "tokens":
		return fmt.Sprint(s.strangers, " connections")
	case s.rate == 0:
		return "as many as can be"
	}
	return fmt.Sprint(s.rate, " a second")
}

// sight is what is seen of one phase: by the innocent client, of its node at the end, and how many tokens the attacked node refused in a second.
type sight struct {
	innocence
	usage
	refused float64
}

// phase measures what the innocent client of a node sees while strangers attack at, nil for nobody.
func (s *siege) phase(ctx context.Context, innocent, at *besieged) (seen sight, err error) {
	if at == nil {
		return s.look(ctx, innocent, innocent)
	}
	self, err := os.Executable()
	if err != nil {
		return seen, err
	}
	var attackers []*child.Process
	defer func() {
		for _, a := range attackers {
			err = errors.Join(err, a.Stop())
		}
	}()
	for left := s.attackers(); left > 0; left -= attackersEach {
		a, err := child.Start(ctx, new(started), self, "besiege", s.kind, at.addr, strconv.Itoa(min(left, attackersEach)), strconv.Itoa(s.rate), s.badTokens())
		if err != nil {
			return seen, err
		}
		attackers = append(attackers, a)
	}
	return s.look(ctx, innocent, at)
}

// look is what is seen of a phase, while it lasts.
func (s *siege) look(ctx context.Context, innocent, at *besieged) (seen sight, err error) {
	before, err := at.tokensRefused()
	if err != nil {
		return seen, err
	}
	began := time.Now()
	if seen.innocence, err = endure(ctx, &innocent.target, s.length); err != nil {
		return seen, err
	}
	took := time.Since(began)
	after, err := at.tokensRefused()
	if err != nil {
		return seen, err
	}
	seen.refused = (after - before) / took.Seconds()
	seen.usage, err = innocent.target.usage()
	return seen, err
}

// attackers is how many connections the strangers have.
func (s *siege) attackers() int {
	if s.kind == "tokens" {
		return 32
	}
	return s.strangers
}

// besieged is a node with clients that need tokens.
type besieged struct {
	target
	node *node.Node
}

func (s *siege) start() (*besieged, error) {
	config := fmt.Sprintf(`
broker: {kind: memory}
auth: {jwt: {algorithms: [ES256, HS256], secret: %q, jwks_url: %q}}
namespaces:
  - {name: ticks, history: {size: 100, age: 5m}, allow: {subscribe: [user], publish: [user], history: [], presence: []}}
`, siegeSecret, s.set.URL)
	b := &besieged{target: target{proto: "sluice", token: s.good()}}
	if strings.HasSuffix(s.kind, "tls") {
		config += fmt.Sprintf("tls: {cert: %q, key: %q}\n", s.certificate(), s.certificate())
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(s.pem)
		b.tls = &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	}
	n, err := node.Start(s.sluice, config)
	if err != nil {
		return nil, err
	}
	b.node, b.addr, b.pid = n, n.Public, n.PID()
	return b, nil
}

// tokensRefused returns how many tokens the node has refused.
func (b *besieged) tokensRefused() (sum float64, err error) {
	page, err := b.node.Get("/metrics")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(page) {
		if name, value, found := bytes.Cut(bytes.TrimSpace(line), []byte(" ")); found && bytes.HasPrefix(name, []byte("sluice_tokens_refused_total{")) {
			n, err := strconv.ParseFloat(string(value), 64)
			if err != nil {
				return 0, err
			}
			sum += n
		}
	}
	return sum, nil
}

// siegeSecret is the secret that nodes share with the issuer of tokens.
const siegeSecret = "a secret that the strangers do not know, of course"

func (s *siege) badTokens() string   { return filepath.Join(s.folder, "tokens") }
func (s *siege) certificate() string { return filepath.Join(s.folder, "node.pem") }

// makeKeys makes the key of good tokens, the set that nodes fetch, the certificate of nodes, and bad tokens.
func (s *siege) makeKeys() (err error) {
	if s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	point, err := s.key.PublicKey.Bytes()
	if err != nil {
		return err
	}
	keys, err := json.Marshal(map[string]any{"keys": []any{map[string]string{
		"kty": "EC", "crv": "P-256", "kid": "e", "x": base64.RawURLEncoding.EncodeToString(point[1:33]), "y": base64.RawURLEncoding.EncodeToString(point[33:]),
	}}})
	if err != nil {
		return err
	}
	s.set = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(keys) }))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err1 := x509.CreateCertificate(rand.Reader, template, template, &s.key.PublicKey, s.key)
	secret, err2 := x509.MarshalPKCS8PrivateKey(s.key)
	public, err3 := x509.MarshalPKIXPublicKey(&s.key.PublicKey)
	s.pem = append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...)
	const claims = `{"sub":"root"}`
	bad := []string{
		tokenOf(`{"alg":"none"}`, claims, func(string) []byte { return nil }),
		tokenOf(`{"alg":"HS256"}`, claims, byHash(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))),
		tokenOf(`{"alg":"ES256","kid":"unknown"}`, claims, byKey(stranger)),
		tokenOf(`{"alg":"ES256","kid":"e"}`, claims, byKey(stranger)), // the most expensive one: the signature is checked
	}
	return errors.Join(err1, err2, err3, os.WriteFile(s.certificate(), s.pem, 0o600), os.WriteFile(s.badTokens(), []byte(strings.Join(bad, "\n")), 0o600))
}

// good returns a token that the nodes accept.
func (s *siege) good() string {
	return tokenOf(`{"alg":"ES256","kid":"e"}`, `{"sub":"innocent"}`, byKey(s.key))
}

func tokenOf(header, claims string, sign func(text string) []byte) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	return text + "." + base64.RawURLEncoding.EncodeToString(sign(text))
}

func byHash(secret []byte) func(string) []byte {
	return func(text string) []byte {
		h := hmac.New(sha256.New, secret)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
}

func byKey(key *ecdsa.PrivateKey) func(string) []byte {
	return func(text string) []byte {
		hash := sha256.Sum256([]byte(text))
		r, s, err := ecdsa.Sign(rand.Reader, key, hash[:])
		if err != nil {
			panic(err) // the key is valid
		}
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	}
}
