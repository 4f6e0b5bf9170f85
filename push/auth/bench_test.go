package auth_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/auth"
)

// What it costs to check a token of a connection with usual claims, by algorithm; and one that is refused for its signature alone, as large as allowed.
func BenchmarkVerify(b *testing.B) {
	claims := fmt.Sprintf(`{"sub":"user-4711","iat":%d,"exp":%d,"info":{"name":"Ann"},"channels":["news"],"jti":"3f7a"}`, now.Unix(), now.Unix()+300)
	for _, name := range []string{"HS256", "RS256", "ES256", "EdDSA"} {
		v := newVerifier(b)
		token := sign(b, name, known(name).private, fmt.Sprintf(`{"alg":%q,"typ":"JWT","kid":%q}`, name, name), claims)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Connection(context.Background(), token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("forged-64KiB", func(b *testing.B) {
		v := newVerifier(b)
		token := sign(b, "HS256", pairs()["HS256"][1].private, `{"alg":"HS256","kid":"HS256"}`, `{"x":[`+strings.Repeat("1,", 24000)+`1]}`)
		if len(token) > auth.MaxTokenBytes {
			b.Fatalf("the token has %d bytes", len(token))
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := v.Connection(context.Background(), token); err == nil {
				b.Fatal("accepted")
			}
		}
	})
}
