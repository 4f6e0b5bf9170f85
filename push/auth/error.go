package auth

import "fmt"

// Reason is why a token is refused.
type Reason uint8

// The reasons.
const (
	Malformed   Reason = iota // it is no token, or one with a header that is not accepted
	Algorithm                 // its algorithm is not accepted
	UnknownKey                // no key has its kid, or none is of its algorithm
	Signature                 // no key confirms its signature
	Expired                   // its time is over
	NotYet                    // its time has not come
	Issuer                    // it is of another issuer
	Audience                  // it is for another audience
	Claims                    // a claim has a value that is not allowed
	Revoked                   // it was revoked, or its user is blocked
	Unavailable               // no fault of the token: its key cannot be had at the moment
	Busy                      // no fault of the token: too many are being checked
)

var reasonNames = [...]string{
	Malformed: "malformed", Algorithm: "algorithm", UnknownKey: "unknown_key", Signature: "signature", Expired: "expired", NotYet: "not_yet_valid",
	Issuer: "issuer", Audience: "audience", Claims: "claims", Revoked: "revoked", Unavailable: "unavailable", Busy: "busy",
}

// String returns the name used in metrics, for instance unknown_key.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// Reasons returns all reasons, ascending.
func Reasons() []Reason {
	out := make([]Reason, len(reasonNames))
	for i := range out {
		out[i] = Reason(i)
	}
	return out
}

// Error is why a token is refused.
type Error struct {
	Reason Reason
	Cause  error
}

// Error returns the reason and its cause. Neither has a part of the token's signature, nor a key. Unless the token was signed with a known key, the
// text has at most a few hundred bytes of it.
func (e *Error) Error() string { return fmt.Sprintf("token refused (%v): %v", e.Reason, e.Cause) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }
