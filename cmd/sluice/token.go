package main

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/admission"
	"github.com/sluice-push/sluice/push/auth"
	"github.com/sluice-push/sluice/push/config"
)

// tokenCmd holds the commands that deal with tokens of clients.
type tokenCmd struct {
	Make  tokenMakeCmd  `cmd:"" help:"Make a token that a node with this configuration accepts, for trying things out."`
	Check tokenCheckCmd `cmd:"" help:"Check a token as a node with this configuration would, and print what it says."`
}

type tokenMakeCmd struct {
	Config  string        `short:"c" help:"Configuration file." type:"path"`
	User    string        `help:"The user; none for an anonymous client."`
	Channel string        `help:"Make a token for a subscription to this channel, instead of one for a connection."`
	TTL     time.Duration `name:"ttl" default:"1h" help:"For how long the token is valid; 0s: for ever."`
	Caps    []string      `help:"What the connection may do besides, as ACTIONS=PATTERN. Example: subscribe,history=quotes:*. May be repeated." sep:"none" placeholder:"ACTIONS=PATTERN"`
	Info    string        `help:"JSON that others see of the client."`
	ID      string        `name:"id" help:"The token's ID (jti), with which it can be revoked."`
	Key     string        `help:"PEM file with the private key, if the configuration has no secret." type:"path"`
}

// Run prints the token.
func (c *tokenMakeCmd) Run(env *environment) error {
	cfg, err := config.Load(c.Config, env.variables, nil)
	if err != nil {
		return err
	}
	block := &cfg.Auth.JWT
	if c.Channel != "" {
		block = cfg.Auth.Subscriptions()
		if len(c.Caps) > 0 {
			return errors.New("--caps is for connections: leave it out, or leave --channel out")
		}
	}
	if !block.Enabled() {
		return errNoAlgorithms
	}
	method, key, err := signingKey(block, c.Key)
	if err != nil {
		return err
	}
	claims, err := c.claims(block)
	if err != nil {
		return err
	}
	token, err := jwt.NewWithClaims(method, claims).SignedString(key)
	if err != nil {
		return fmt.Errorf("sign the token: %w", err)
	}
	if err := check(cfg, token, c.Channel != ""); err != nil {
		return fmt.Errorf("a node would not accept this token: %w", err)
	}
	_, err = fmt.Fprintln(env.stdout, token)
	return err
}

var errNoAlgorithms = errors.New("the configuration accepts no tokens: set auth.jwt.algorithms, and a secret or public keys")

// claims returns what the token says.
func (c *tokenMakeCmd) claims(block *config.JWT) (jwt.MapClaims, error) {
	now := time.Now()
	claims := jwt.MapClaims{"iat": now.Unix()}
	if c.User != "" {
		claims[block.UserClaim] = c.User
	}
	if c.TTL > 0 {
		claims["exp"] = now.Add(c.TTL).Unix()
	}
	for name, value := range map[string]string{"channel": c.Channel, "jti": c.ID, "iss": block.Issuer} {
		if value != "" {
			claims[name] = value
		}
	}
	if len(block.Audience) > 0 {
		claims["aud"] = block.Audience[0]
	}
	if c.Info != "" {
		if !json.Valid([]byte(c.Info)) {
			return nil, errors.New("--info is not JSON")
		}
		claims["info"] = json.RawMessage(c.Info)
	}
	caps, err := parseCaps(c.Caps)
	if len(caps) > 0 {
		claims["caps"] = caps
	}
	return claims, err
}

// capability is an entry of the claim caps.
type capability struct {
	Channels []string `json:"channels"`
	Match    string   `json:"match,omitempty"`
	Allow    []string `json:"allow"`
}

func parseCaps(texts []string) (caps []capability, err error) {
	for _, text := range texts {
		actions, pattern, ok := strings.Cut(text, "=")
		if !ok || pattern == "" {
			return nil, fmt.Errorf("--caps %s is not ACTIONS=PATTERN, as in subscribe,history=quotes:*", text)
		}
		allow := strings.Split(actions, ",")
		if _, err := push.ParseActions(allow); err != nil {
			return nil, fmt.Errorf("--caps %s: %w", text, err)
		}
		one := capability{Channels: []string{pattern}, Allow: allow}
		if strings.Contains(pattern, "*") {
			one.Match = "wildcard"
		}
		caps = append(caps, one)
	}
	return caps, nil
}

// signingKey returns with what tokens are signed that a block of the configuration accepts: the private key of a file, or the secret.
func signingKey(block *config.JWT, file string) (jwt.SigningMethod, any, error) {
	if file != "" {
		private, err := readPrivateKey(file)
		if err != nil {
			return nil, nil, err
		}
		for _, name := range block.Algorithms {
			if auth.Fits(name, private.Public()) {
				return jwt.GetSigningMethod(name), private, nil
			}
		}
		return nil, nil, fmt.Errorf("no algorithm of the configuration is for the key in %s", file)
	}
	secret, err := secretOf(block)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range block.Algorithms {
		if auth.IsSymmetric(name) && secret != nil {
			return jwt.GetSigningMethod(name), secret, nil
		}
	}
	return nil, nil, errors.New("the configuration has only public keys: give the private key with --key")
}

func readPrivateKey(file string) (interface{ Public() crypto.PublicKey }, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if key, err := jwt.ParseRSAPrivateKeyFromPEM(text); err == nil {
		return key, nil
	}
	if key, err := jwt.ParseECPrivateKeyFromPEM(text); err == nil {
		return key, nil
	}
	key, err := jwt.ParseEdPrivateKeyFromPEM(text)
	if err == nil {
		if private, ok := key.(interface{ Public() crypto.PublicKey }); ok {
			return private, nil
		}
	}
	return nil, fmt.Errorf("%s is no PEM file with a private key of RSA, ECDSA or Ed25519", file)
}

// check checks a token as a node would.
func check(cfg *config.Config, token string, isSubscription bool) error {
	_, _, err := inspect(cfg, token, isSubscription)
	return err
}

// fetchTime is how long commands wait for keys of tokens that are fetched.
const fetchTime = 10 * time.Second

// inspect returns what a token says, as a token of a connection or of a subscription.
func inspect(cfg *config.Config, token string, isSubscription bool) (c *auth.Connection, s *auth.Subscription, err error) {
	t, err := openTokens(cfg, newTokenGate(admission.NewLimits(nil), 0), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	defer t.close()
	ctx, cancel := context.WithTimeout(context.Background(), fetchTime)
	defer cancel()
	verifier := t.connections
	if isSubscription {
		verifier = t.subscriptions
	}
	if verifier == nil {
		return nil, nil, errNoAlgorithms
	}
	if isSubscription {
		s, err = verifier.Subscription(ctx, token)
	} else {
		c, err = verifier.Connection(ctx, token)
	}
	return c, s, err
}

// inspectAny returns what a token says, as that of which it claims to be.
func inspectAny(cfg *config.Config, token string) (*auth.Connection, *auth.Subscription, error) {
	return inspect(cfg, token, isForChannel(token))
}

// isForChannel reports whether a token says, without its signature being checked, that it is for a subscription.
func isForChannel(token string) bool {
	claims := jwt.MapClaims{}
	_, _, err := jwt.NewParser().ParseUnverified(token, claims)
	return err == nil && claims["channel"] != nil
}

type tokenCheckCmd struct {
	Config string `short:"c" help:"Configuration file." type:"path"`
	Token  string `arg:"" optional:"" help:"The token; without one, it is read from standard input."`
}

// Run prints what the token says.
func (c *tokenCheckCmd) Run(env *environment) error {
	cfg, err := config.Load(c.Config, env.variables, nil)
	if err != nil {
		return err
	}
	token, err := givenToken(c.Token, env)
	if err != nil {
		return err
	}
	connection, subscription, err := inspectAny(cfg, token)
	if err != nil {
		return err
	}
	out := &strings.Builder{}
	if subscription != nil {
		fmt.Fprintf(out, "valid for a subscription to %q\n", subscription.Channel)
		describe(out, &subscription.Token)
	} else {
		fmt.Fprintln(out, "valid for a connection")
		describe(out, &connection.Token)
		for _, s := range connection.Subscriptions {
			fmt.Fprintf(out, "subscription %q\n", s.Channel)
		}
		for _, one := range connection.Capabilities {
			fmt.Fprintf(out, "capability   %v in %q\n", one.Actions, one.Channels)
		}
	}
	_, err = io.WriteString(env.stdout, out.String())
	return err
}

func givenToken(argument string, env *environment) (string, error) {
	if argument != "" {
		return argument, nil
	}
	text, err := io.ReadAll(io.LimitReader(env.stdin, auth.MaxTokenBytes+1))
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	if token := strings.TrimSpace(string(text)); token != "" {
		return token, nil
	}
	return "", errors.New("there is no token: give one as argument, or on standard input")
}

func describe(out io.Writer, t *auth.Token) {
	line := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(out, "%-12s "+format+"\n", append([]any{name}, args...)...)
	}
	if t.User == "" {
		line("user", "none: anonymous")
	} else {
		line("user", "%q", t.User)
	}
	if t.ID != "" {
		line("id", "%q", t.ID)
	}
	for _, one := range [...]struct {
		name string
		at   time.Time
	}{{"issued", t.IssuedAt}, {"valid until", t.ValidUntil}, {"expires", t.Expires}} {
		if !one.at.IsZero() {
			line(one.name, "%s", one.at.UTC().Format(time.RFC3339))
		}
	}
	if t.Info != nil {
		line("info", "%s", t.Info)
	}
}
