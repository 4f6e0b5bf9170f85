package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/logsample"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/admission"
	"github.com/sluice-push/sluice/push/auth"
	"github.com/sluice-push/sluice/push/auth/jwks"
	"github.com/sluice-push/sluice/push/config"
)

// tokens checks the tokens of clients, and counts the refusals.
type tokens struct {
	connections   *auth.Verifier // nil: none is accepted
	subscriptions *auth.Verifier
	sets          []*jwks.Client // to be closed
	claims        []string       // that routes ask for
	gate          *admission.Gate
	log           *slog.Logger
	warning       logsample.Warning
	refused       [256]atomic.Uint64 // by auth.Reason
}

// waitingChecks is how many checks of tokens may wait for each one that runs. A check takes 0.1 ms, so the last one waits some tens of milliseconds.
const waitingChecks = 256

// newTokenGate returns what bounds the checks of tokens. 0 at once is twice the number of processors.
func newTokenGate(limits *admission.Limits, atOnce int) *admission.Gate {
	if atOnce == 0 {
		atOnce = 2 * runtime.GOMAXPROCS(0)
	}
	return admission.NewGate(limits, admission.TokenChecks, atOnce, waitingChecks*atOnce)
}

// openTokens returns what checks the tokens that a configuration accepts, through a gate. The caller closes it.
func openTokens(c *config.Config, gate *admission.Gate, log *slog.Logger) (*tokens, error) {
	rules, err := c.Cluster.Route.Rules()
	if err != nil {
		return nil, err
	}
	t := &tokens{gate: gate, log: log, claims: rules.Claims()}
	if err := t.open(&c.Auth); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *tokens) open(cfg *config.Auth) (err error) {
	if t.connections, err = t.verifier("auth.jwt", &cfg.JWT); err != nil {
		return err
	}
	t.subscriptions = t.connections
	if cfg.SubscriptionJWT.Enabled() {
		t.subscriptions, err = t.verifier("auth.subscription_jwt", &cfg.SubscriptionJWT)
	}
	return err
}

// close stops what fetches keys.
func (t *tokens) close() {
	for _, set := range t.sets {
		set.Close()
	}
}

// verifier returns what checks tokens as a block of the configuration says, nil if it accepts none.
func (t *tokens) verifier(key string, j *config.JWT) (*auth.Verifier, error) {
	if !j.Enabled() {
		return nil, nil //nolint:nilnil // tokens are not configured
	}
	read := func() (auth.Keys, error) { return readKeys(j) }
	keys, err := newFileKeys(key, keysInterval, t.log, read, j.SecretFile, j.PreviousSecretFile, j.PublicKeyFile)
	if err != nil {
		return nil, fmt.Errorf("cannot load the keys of tokens (setting %q): %w", key, err)
	}
	sources := []auth.Keys{keys}
	if j.JWKSURL != "" {
		set := jwks.Start(jwks.Options{URL: j.JWKSURL, HTTP: &http.Client{CheckRedirect: refuseRedirect}, Logger: t.log})
		t.sets = append(t.sets, set)
		sources = append(sources, set)
	}
	return auth.NewVerifier(auth.Options{
		Algorithms: j.Algorithms, Keys: auth.Join(sources...), Issuer: j.Issuer, Audience: j.Audience, UserClaim: j.UserClaim,
		Leeway: time.Duration(j.Leeway), Gate: t.gate, Claims: t.claims,
	})
}

// readKeys returns the keys that a block has, or that its files have now.
func readKeys(j *config.JWT) (auth.Keys, error) {
	var sources []auth.Keys
	secret, err := secretOf(j)
	if err != nil {
		return nil, err
	}
	previous, err := previousSecretOf(j)
	if err != nil {
		return nil, err
	}
	secrets := slices.DeleteFunc([][]byte{secret, previous}, func(s []byte) bool { return s == nil })
	if len(secrets) > 0 {
		keys, err := auth.Secret(secrets...)
		if err != nil {
			return nil, err
		}
		sources = append(sources, keys)
	}
	if j.PublicKeyFile != "" {
		text, err := os.ReadFile(j.PublicKeyFile)
		if err != nil {
			return nil, err
		}
		keys, err := auth.ParsePEM(text)
		if err != nil {
			return nil, err
		}
		sources = append(sources, keys)
	}
	return auth.Join(sources...), nil
}

// previousSecretOf returns the secret that a block also accepts, nil if it has none: the file may be missing or empty while there is none.
func previousSecretOf(j *config.JWT) ([]byte, error) {
	if j.PreviousSecretFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(j.PreviousSecretFile)
	text = bytes.TrimRight(text, " \t\r\n")
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(text) == 0:
		return nil, nil
	}
	return text, err
}

func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// secretOf returns the secret of a block, nil if it has none.
func secretOf(j *config.JWT) ([]byte, error) {
	if j.SecretFile == "" {
		if j.Secret == "" {
			return nil, nil
		}
		return []byte(j.Secret), nil
	}
	text, err := os.ReadFile(j.SecretFile)
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(text, " \t\r\n"), nil
}

// connection checks the token of a connection. The error is what the client is answered.
func (t *tokens) connection(ctx context.Context, token string) (*auth.Connection, error) {
	if t.connections == nil {
		return nil, push.DisconnectInvalidToken
	}
	c, err := t.connections.Connection(ctx, token)
	if err != nil {
		return nil, t.refuse(err, push.DisconnectInvalidToken)
	}
	return c, nil
}

// subscription checks the token of a subscription. The error is what the client is answered.
func (t *tokens) subscription(ctx context.Context, token string) (*auth.Subscription, error) {
	if t.subscriptions == nil {
		return nil, push.ErrPermissionDenied
	}
	s, err := t.subscriptions.Subscription(ctx, token)
	if err != nil {
		return nil, t.refuse(err, push.ErrPermissionDenied)
	}
	return s, nil
}

// refuse counts and logs a refusal, and returns the answer to the client: invalid, unless the client may try again with another token or later. It
// does not tell the client why: that is for whom the node belongs to.
func (t *tokens) refuse(err, invalid error) error {
	var why *auth.Error
	if !errors.As(err, &why) {
		return err
	}
	t.refused[why.Reason].Add(1)
	if t.warning.Due(time.Now()) {
		t.log.Warn("a token was refused", "reason", why.Reason, "error", why.Cause)
	}
	switch why.Reason {
	case auth.Expired:
		return push.ErrTokenExpired
	case auth.Busy:
		return push.ErrTooManyRequests.WithMessage("too many tokens are being checked, try again later")
	case auth.Unavailable:
		return push.ErrInternal.WithMessage("the token cannot be checked at the moment")
	default:
		return invalid
	}
}
