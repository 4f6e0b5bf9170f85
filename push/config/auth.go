package config

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/sluice-push/sluice/push/auth"
)

// Auth configures the authentication of clients. If neither tokens nor anonymous clients are configured, no client can connect.
type Auth struct {
	// JWT says which tokens of connections are accepted. Without algorithms, none is.
	JWT JWT `yaml:"jwt"`
	// SubscriptionJWT says which tokens of subscriptions are accepted. Without algorithms, they are checked as JWT says.
	SubscriptionJWT JWT `yaml:"subscription_jwt"`
	// Anonymous admits clients without a token, or with one that names no user. The namespaces decide what they may do: see [Allow].
	Anonymous bool `yaml:"anonymous"`
	// PersonalChannel subscribes every client with a user to the channel "#" + user when it connects. The namespace without a name has to exist.
	PersonalChannel bool `yaml:"personal_channel"`
	// ClientCertificates makes a client without a token, but with a certificate, the user that the common name of its subject says. It needs TLS with
	// a ClientCA.
	ClientCertificates bool `yaml:"client_certificates"`
}

// KnowsUsers reports whether clients may say who they are.
func (a *Auth) KnowsUsers() bool { return a.JWT.Enabled() || a.ClientCertificates }

// JWT says which JSON Web Tokens are accepted.
type JWT struct {
	// Algorithms with which tokens may be signed, see [auth.Algorithms].
	Algorithms []string `yaml:"algorithms"`
	// Secret is the key of the algorithms HS256, HS384 and HS512, at least [auth.MinSecretBytes] long. SecretFile is the path of a file that contains
	// it; white space at the end of the file does not count.
	Secret     Secret `yaml:"secret"`
	SecretFile string `yaml:"secret_file"`
	// PreviousSecretFile is the path of a file with a secret that is accepted too, while the secret is exchanged for another. It may be missing or
	// empty. All files with keys are read again when they change.
	PreviousSecretFile string `yaml:"previous_secret_file"`
	// PublicKeyFile is the path of a PEM file with the public keys of the other algorithms; JWKSURL is where an identity provider publishes them, as
	// a JSON Web Key Set.
	PublicKeyFile string `yaml:"public_key_file"`
	JWKSURL       string `yaml:"jwks_url"`
	// Issuer is what the claim iss has to be; empty accepts all. The claim aud has to have one of Audience; none accepts all.
	Issuer   string   `yaml:"issuer"`
	Audience []string `yaml:"audience"`
	// UserClaim is the claim with the user's ID.
	UserClaim string `yaml:"user_claim"`
	// Leeway is by how much the clocks of the issuer and of the node may differ, at most an hour.
	Leeway Duration `yaml:"leeway"`
}

// Enabled reports whether any token is accepted.
func (j *JWT) Enabled() bool { return len(j.Algorithms) > 0 }

// Subscriptions returns what says which tokens of subscriptions are accepted.
func (a *Auth) Subscriptions() *JWT {
	if a.SubscriptionJWT.Enabled() {
		return &a.SubscriptionJWT
	}
	return &a.JWT
}

func defaultJWT() JWT {
	return JWT{Algorithms: []string{}, Audience: []string{}, UserClaim: "sub", Leeway: Duration(5 * time.Second)}
}

// Secret is a text that is never printed: all verbs of package fmt, and its text form, show a placeholder.
type Secret string

const secretRedacted = "<secret>"

// UnmarshalText accepts every text.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = Secret(text)
	return nil
}

// MarshalText returns a placeholder.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String returns a placeholder, or nothing if the secret is empty.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return secretRedacted
}

// Format writes a placeholder, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

func (a *Auth) check(r *report) {
	a.JWT.check(r, "auth.jwt")
	a.SubscriptionJWT.check(r, "auth.subscription_jwt")
}

func (j *JWT) check(r *report, key string) {
	if j.UserClaim == "" {
		r.invalid(key+".user_claim", "user_claim is empty: use sub")
	}
	checkRange(r, key+".leeway", j.Leeway, 0, Duration(time.Hour))
	if len(j.Algorithms) == 0 {
		for _, name := range j.set() {
			r.invalid(key+"."+name, "no effect without algorithms: list those with which tokens are signed, such as ES256 or HS256")
		}
		return
	}
	needsSecret, needsPublic := j.checkAlgorithms(r, key+".algorithms")
	if !needsSecret {
		j.refuse(r, key, "no effect: none of the algorithms HS256, HS384 and HS512 is listed", "secret", "secret_file", "previous_secret_file")
	}
	if !needsPublic {
		j.refuse(r, key, "no effect: no algorithm other than HS256, HS384 and HS512 is listed", "public_key_file", "jwks_url")
	}
	switch {
	case j.Secret != "" && j.SecretFile != "":
		r.invalid(key+".secret_file", "not allowed with secret: use one of them")
	case j.Secret != "" && len(j.Secret) < auth.MinSecretBytes:
		r.invalid(key+".secret", "the secret has %d bytes, at least %d are needed: generate one with `openssl rand -base64 32`", len(j.Secret), auth.MinSecretBytes)
	}
	j.checkURL(r, key)
}

// checkAlgorithms reports algorithms that are unknown, or lack their keys. It returns which keys are needed.
func (j *JWT) checkAlgorithms(r *report, key string) (needsSecret, needsPublic bool) {
	for i, name := range j.Algorithms {
		entry := fmt.Sprintf("%s[%d]", key, i)
		isSecret := auth.IsSymmetric(name)
		switch {
		case !slices.Contains(auth.Algorithms(), name):
			r.invalid(entry, "unknown algorithm %s: use %s", quote(name), choices(auth.Algorithms()))
			continue
		case slices.Contains(j.Algorithms[:i], name):
			r.invalid(entry, "duplicate entry %s", name)
		case isSecret && j.Secret == "" && j.SecretFile == "":
			r.invalid(entry, "%s needs a secret: set secret or secret_file", name)
		case !isSecret && j.PublicKeyFile == "" && j.JWKSURL == "":
			r.invalid(entry, "%s needs public keys: set public_key_file or jwks_url", name)
		}
		needsSecret, needsPublic = needsSecret || isSecret, needsPublic || !isSecret
	}
	return needsSecret, needsPublic
}

// set returns the names of the keys that say where keys are, or what is required of tokens, and that are set.
func (j *JWT) set() (names []string) {
	for _, k := range [...]struct {
		name  string
		isSet bool
	}{
		{"secret", j.Secret != ""},
		{"secret_file", j.SecretFile != ""},
		{"previous_secret_file", j.PreviousSecretFile != ""},
		{"public_key_file", j.PublicKeyFile != ""},
		{"jwks_url", j.JWKSURL != ""},
		{"issuer", j.Issuer != ""},
		{"audience", len(j.Audience) > 0},
	} {
		if k.isSet {
			names = append(names, k.name)
		}
	}
	return names
}

// refuse reports which of some keys are set.
func (j *JWT) refuse(r *report, key, why string, names ...string) {
	for _, name := range j.set() {
		if slices.Contains(names, name) {
			r.invalid(key+"."+name, "%s: leave it out", why)
		}
	}
}

func (j *JWT) checkURL(r *report, key string) {
	if j.JWKSURL == "" {
		return
	}
	if j.PublicKeyFile != "" {
		r.invalid(key+".jwks_url", "not allowed with public_key_file: use one of them")
	}
	u, err := url.Parse(j.JWKSURL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		r.invalid(key+".jwks_url", "%s is not an address: use https://host/path", quote(j.JWKSURL))
	}
}
