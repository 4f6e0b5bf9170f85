package jwks_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluice-push/sluice/push/auth"
	"github.com/sluice-push/sluice/push/auth/jwks"
)

// A real server with TLS: a verifier accepts what was signed with a key of its set. A server whose certificate is not trusted is not listened to, and
// redirects are not followed.
func TestServer(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	var accept string
	var isLast bool
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			http.Redirect(w, r, "/keys", http.StatusFound)
			return
		}
		accept, isLast = r.Method+" "+r.Header.Get("Accept"), r.Close
		_, _ = io.WriteString(w, set(entry(public, member{"kid", "a"})))
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0) // handshakes fail here
	server.StartTLS()
	defer server.Close()
	text := encode([]byte(`{"alg":"EdDSA","kid":"a"}`)) + "." + encode([]byte(`{"sub":"ann"}`))
	token := text + "." + encode(ed25519.Sign(private, []byte(text)))
	check := func(url string, client *http.Client) (*auth.Connection, error) {
		keys := jwks.Start(jwks.Options{URL: url, HTTP: client})
		defer keys.Close()
		v, err := auth.NewVerifier(auth.Options{Algorithms: []string{"EdDSA"}, Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		return v.Connection(t.Context(), token)
	}
	c, err := check(server.URL+"/keys", server.Client())
	if err != nil || c.User != "ann" || accept != "GET application/jwk-set+json, application/json" {
		t.Errorf("%+v, %v, and the request was %q", c, err, accept)
	}
	var refused *auth.Error
	if _, err := check(server.URL+"/keys", nil); !errors.As(err, &refused) || refused.Reason != auth.Unavailable {
		t.Errorf("a server that is not trusted: %v", err)
	}
	plain := httptest.NewServer(server.Config.Handler)
	defer plain.Close()
	if c, err := check(plain.URL+"/keys", nil); err != nil || c.User != "ann" || !isLast {
		t.Errorf("a server without TLS: %v; the connection is not kept: %t", err, isLast)
	}
	if _, err := check(plain.URL+"/elsewhere", nil); !errors.As(err, &refused) || refused.Reason != auth.Unavailable {
		t.Errorf("a redirect: %v", err)
	}
	server.Client().CloseIdleConnections()
}

func ExampleStart() {
	keys := jwks.Start(jwks.Options{URL: "https://id.example/.well-known/jwks.json"})
	defer keys.Close()
	_, err := auth.NewVerifier(auth.Options{Algorithms: []string{"ES256"}, Keys: keys})
	fmt.Println(err)
	// Output: <nil>
}
