package auth_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/auth"
)

// The user is the common name, and the connection ends with the certificate. Names that are no users are refused.
func TestOfCertificate(t *testing.T) {
	begin, end := time.Unix(1000, 0), time.Unix(2000, 0)
	for name, reason := range map[string]string{
		"ann": "accepted", "Ann Example": "accepted", strings.Repeat("x", push.MaxUserLen): "accepted",
		"": "claims", strings.Repeat("x", push.MaxUserLen+1): "claims", "a\x00b": "claims", "a\nb": "claims", "\xff": "claims",
	} {
		c, err := auth.OfCertificate(&x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: begin, NotAfter: end})
		if got := reasonOf(t, err); got != reason {
			t.Errorf("%.20q: %v, want %s", name, err, reason)
		}
		if err == nil && (c.User != name || !c.IssuedAt.Equal(begin) || !c.Expires.Equal(end) || !c.ValidUntil.Equal(end)) {
			t.Errorf("%.20q: %+v", name, c)
		}
	}
}
