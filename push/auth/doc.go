// Package auth checks the tokens with which clients say who they are and what they may do: JSON Web Tokens (RFC 7519) whose signatures only the
// application's back end can make. The claims are those published for Centrifugo (https://centrifugal.dev/docs/server/authentication,
// …/server/channel_token_auth and …/pro/capabilities), so that code that makes such tokens fits.
//
// A [Verifier] checks tokens of both kinds: those of connections ([Verifier.Connection]) and those of single subscriptions
// ([Verifier.Subscription]); one of the other kind is refused. It accepts only the algorithms that it is told of, and the algorithm decides which
// kind of key may check a signature: a public key is never used as a secret. Headers of a token that carry or name keys (jwk, jku, x5c, x5u) have
// no effect; kid chooses among the keys that are known. A token with critical headers (crit) is refused, because none is known here. The claims
// are not looked at before the signature is known to be right.
//
// The keys come from a [Keys]: [Secret], [ParsePEM], or a set that is fetched from a URL, see package jwks.
//
// The package does no I/O, starts no goroutine, and reads the clock only through [Options].
package auth
