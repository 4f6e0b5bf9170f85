package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-push/sluice/bench/internal/cluster"
)

// tokenSecret signs the tokens of all clients, and apiKey is the key of what publishes.
const (
	tokenSecret = "only-clients-of-this-bench-have-such-tokens"
	apiKey      = "only-this-bench-publishes"
)

// token returns the token of a user (RFC 7519, signed with HS256).
func token(user string) string {
	b64 := base64.RawURLEncoding
	text := b64.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + b64.EncodeToString(fmt.Appendf(nil, `{"sub":%q}`, user))
	mac := hmac.New(sha256.New, []byte(tokenSecret))
	mac.Write([]byte(text))
	return text + "." + b64.EncodeToString(mac.Sum(nil))
}

// user is the name of the user numbered i.
func user(i int) string { return fmt.Sprintf("user%d", i) }

// startUsers is startLoad with a user of its own for each client.
func (s *settings) startUsers(ctx context.Context, c *cluster.Cluster, args ...string) (*running, error) {
	var tokens strings.Builder
	for i := range s.clients {
		tokens.WriteString(token(user(i)) + "\n")
	}
	file := filepath.Join(s.folder, "tokens")
	if err := os.WriteFile(file, []byte(tokens.String()), 0o600); err != nil {
		return nil, err
	}
	return startLoad(ctx, s, c, append([]string{"--tokens", file}, args...)...)
}
