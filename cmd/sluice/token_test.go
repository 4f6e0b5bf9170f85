package main_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sluice "github.com/sluice-push/sluice/cmd/sluice"
	"github.com/sluice-push/sluice/cmd/sluice/internal/clientconn"
)

const secretConfig = `
auth: {jwt: {algorithms: [HS256], secret: "a secret that is long enough for HS256", issuer: me, audience: [you]}}
tcp: {listen: "127.0.0.1:0"}
namespaces:
  - {name: chat, mode: value, allow: {subscribe: [user], publish: [user]}}
  - {name: closed, mode: value, allow: {subscribe: []}}
  - {name: secret, mode: value, private: true, allow: {subscribe: [user], publish: [user]}}
`

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// command runs a command that has to succeed, and returns what it prints.
func command(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := sluice.RunCommand("", nil, args...)
	if code != 0 {
		t.Fatalf("sluice %s: exit code %d: %s", strings.Join(args, " "), code, stderr)
	}
	return strings.TrimSuffix(stdout, "\n")
}

// TestTokenMake: a node with the configuration accepts the token, and it says what was asked for.
func TestTokenMake(t *testing.T) {
	file := writeFile(t, "config.yaml", secretConfig)
	token := command(t, "token", "make", "-c", file, "--user", "ann", "--caps", "subscribe,history=closed:*", "--caps", "publish=closed:*", "--info", `{"n":1}`, "--id", "7")
	got := command(t, "token", "check", "-c", file, token)
	for _, want := range []string{
		"valid for a connection\n", "user         \"ann\"\n", "id           \"7\"\n", "\nvalid until  ", "\nexpires      ", "info         {\"n\":1}\n",
		"capability   subscribe,history in [\"closed:*\"]\n", "capability   publish in [\"closed:*\"]",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the token has no %q:\n%s", want, got)
		}
	}
	if got := command(t, "token", "check", "-c", file, command(t, "token", "make", "-c", file, "--channel", "secret:a", "--ttl", "0s")); got != "valid for a subscription to \"secret:a\"\nuser         none: anonymous\nissued       "+issued(got) {
		t.Errorf("the token for a subscription is\n%s", got)
	}
}

// issued returns the time on the line that begins so.
func issued(text string) string {
	_, after, _ := strings.Cut(text, "issued       ")
	at, _, _ := strings.Cut(after, "\n")
	return at
}

// TestTokenMakeWithKey: with public keys in the configuration, the private key is given.
func TestTokenMakeWithKey(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	privateFile := writeFile(t, "private.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	publicFile := writeFile(t, "public.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})))
	file := writeFile(t, "config.yaml", `auth: {jwt: {algorithms: [ES256], public_key_file: "`+publicFile+`"}}`)
	token := command(t, "token", "make", "-c", file, "--user", "ann", "--key", privateFile)
	if got := command(t, "token", "check", "-c", file, token); !strings.Contains(got, `"ann"`) {
		t.Errorf("the token is\n%s", got)
	}
	for args, want := range map[string]string{
		"":                     "the private key with --key",
		" --key " + publicFile: "is no PEM file with a private key",
		" --key /nowhere":      "no such file",
	} {
		code, _, stderr := sluice.RunCommand("", nil, strings.Fields("token make --user ann -c "+file+args)...)
		if code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
	}
}

// TestTokenRefused: mistakes are said.
func TestTokenRefused(t *testing.T) {
	file := writeFile(t, "config.yaml", secretConfig)
	other := writeFile(t, "other.yaml", strings.Replace(secretConfig, "a secret", "A secret", 1))
	token := command(t, "token", "make", "-c", file, "--user", "ann")
	for args, want := range map[string]string{
		"token make --user ann":                                                  "set auth.jwt.algorithms",
		"token check x":                                                          "set auth.jwt.algorithms",
		"token make -c " + file + " --caps all=*":                                "unknown action",
		"token make -c " + file + " --caps publish":                              "is not ACTIONS=PATTERN",
		"token make -c " + file + " --channel a --caps publish=a":                "--caps is for connections",
		"token make -c " + file + " --channel :a":                                "would not accept",
		"token make -c " + file + " --info {":                                    "--info is not JSON",
		"token check -c " + file:                                                 "there is no token",
		"token check -c " + file + " bogus":                                      "malformed",
		"token check -c " + other + " " + token:                                  "signature",
		"config explain -c " + file + " --channel chat:a":                        "auth.anonymous is false",
		"config explain --channel a --action eat":                                "--action: unknown action",
		"config explain -c " + file + " --user bob --channel a --token " + token: "leave --user out",
	} {
		code, stdout, stderr := sluice.RunCommand("", nil, strings.Fields(args)...)
		if code != 1 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d: %s%s\nwant %q", args, code, stdout, stderr, want)
		}
	}
}

// TestExplain: the decision, the rule and the reason, as a node decides.
func TestExplain(t *testing.T) {
	file := writeFile(t, "config.yaml", secretConfig)
	explain := func(args ...string) string {
		t.Helper()
		return command(t, append([]string{"config", "explain", "-c", file}, args...)...)
	}
	token := command(t, "token", "make", "-c", file, "--user", "ann", "--caps", "subscribe=closed:*")
	subscription := command(t, "token", "make", "-c", file, "--user", "ann", "--channel", "secret:a")
	for _, tt := range []struct {
		got, want string
	}{
		{explain("--user", "ann", "--channel", "chat:a", "--action", "publish"), "permitted\nrule namespace: "},
		{explain("--user", "ann", "--channel", "closed:a"), "refused: permission denied (code 103)\nrule default: "},
		{explain("--token", token, "--channel", "closed:a"), "permitted\nrule capability: "},
		{explain("--user", "ann", "--channel", "secret:a"), "refused: permission denied (code 103)\nrule private: "},
		{explain("--user", "ann", "--channel", "secret:a", "--token", subscription), "permitted\nrule token: "},
		{explain("--user", "bob", "--channel", "secret:a", "--token", subscription), "refused: permission denied (code 103)\nrule token: "},
		{explain("--user", "ann", "--channel", "secret:a", "--action", "publish", "--subscribed"), "permitted\nrule namespace: "},
		{explain("--user", "ann", "--channel", "nosuch:a"), "refused: unknown channel: namespace \"nosuch\" is not configured (code 102)\nrule channel: "},
	} {
		if !strings.HasPrefix(tt.got, tt.want) {
			t.Errorf("explained as\n%s\nwant %s", tt.got, tt.want)
		}
	}
}

// TestTokensOverEachTransport: a client with a good token may, others may not, whatever carries them.
func TestTokensOverEachTransport(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "config.yaml", secretConfig)
	p := startNode(t, "--config", file)
	good := command(t, "token", "make", "-c", file, "--user", "ann")
	parts := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + parts[1] + "."
	for _, transport := range clientconn.Transports() {
		t.Run(transport, func(t *testing.T) {
			url := "http://" + p.public
			if transport == "tcp" {
				url = "tcp://" + p.tcp
			}
			for name, tt := range map[string]struct {
				token, channel string
				code           int
				stderr         string
			}{
				"good":            {good, "chat:a", 0, ""},
				"no permission":   {good, "closed:a", 1, "103"},
				"none":            {"", "chat:a", 1, "3500"},
				"no algorithm":    {none, "chat:a", 1, "3500"},
				"other signature": {parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2])), "chat:a", 1, "3500"},
			} {
				code, _, stderr := sluice.RunCommand("", nil, "pub", tt.channel, "1", "--url", url, "--transport", transport, "--token", tt.token)
				if code != tt.code || !strings.Contains(stderr, tt.stderr) {
					t.Errorf("%s: exit code %d: %s\nwant %d, %q", name, code, stderr, tt.code, tt.stderr)
				}
			}
		})
	}
}
