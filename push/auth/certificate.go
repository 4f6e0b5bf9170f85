package auth

import (
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/sluice-push/sluice/push"
)

// OfCertificate returns what the certificate of a TLS client says, as a token would. The caller has checked the certificate. The user is the common
// name of its subject (RFC 5280 §4.1.2.6), which must not be empty; the connection expires with the certificate. The error is an [*Error].
func OfCertificate(cert *x509.Certificate) (*Connection, error) {
	user := cert.Subject.CommonName
	if user == "" {
		return nil, &Error{Claims, errors.New("the subject of the certificate has no common name")}
	}
	if err := push.CheckUser(user); err != nil {
		return nil, &Error{Claims, fmt.Errorf("the common name of the certificate: %w", err)}
	}
	return &Connection{Token: Token{User: user, IssuedAt: cert.NotBefore, ValidUntil: cert.NotAfter, Expires: cert.NotAfter}}, nil
}
