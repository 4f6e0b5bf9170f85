package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/config"
)

// A secret never shows up where a configuration is printed.
func TestSecretIsNotPrinted(t *testing.T) {
	const secret = "a secret that is long enough for anybody"
	cfg, err := config.Parse("", nil, []string{"SLUICE_AUTH_JWT_SECRET=" + secret, "SLUICE_AUTH_JWT_ALGORITHMS=[HS256]"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Auth.JWT.Secret != secret || !cfg.Auth.JWT.Enabled() || cfg.Auth.Subscriptions() != &cfg.Auth.JWT {
		t.Errorf("the configuration is %+v", cfg.Auth)
	}
	text, err := cfg.Auth.JWT.Secret.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	printed := fmt.Sprintf("%v %+v %#v %s %q %x %s", cfg, cfg.Auth, cfg.Auth, cfg.Auth.JWT.Secret, cfg.Auth.JWT.Secret, cfg.Auth.JWT.Secret, text)
	if strings.Contains(printed, secret) || strings.Contains(printed, fmt.Sprintf("%x", secret)) {
		t.Errorf("printed as %s", printed)
	}
}

// Tokens of subscriptions have settings of their own once those name an algorithm.
func TestSubscriptionJWT(t *testing.T) {
	cfg, err := config.Parse("f", []byte(`
auth:
  jwt: {algorithms: [ES256], public_key_file: key.pem}
  subscription_jwt: {algorithms: [HS256], secret_file: secret}
`), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.Auth.Subscriptions(); got.SecretFile != "secret" || got.UserClaim != "sub" {
		t.Errorf("tokens of subscriptions are checked as %+v", got)
	}
}
