package main

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/api"
	"github.com/sluice-push/sluice/push/auth"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/revocation"
)

// rights are what access has to know of a client that has connected with a token.
type rights struct {
	token        auth.Token
	capabilities []auth.Capability
}

// rightsOf returns what is known of a client, nothing if it has no token.
func rightsOf(id *gateway.Identity) *rights {
	if r, ok := id.Rights.(*rights); ok {
		return r
	}
	return &rights{}
}

// revocationsNamespace is the namespace in which nodes keep what is revoked.
func revocationsNamespace(cfg *config.Config) hub.Namespace {
	return hub.Namespace{Namespace: broker.Namespace{
		Name: revocation.Namespace, Mode: push.Table, History: push.History{Size: 10_000, Age: time.Hour}, Partitions: 1,
		Durable: config.DurableIfPossible.With(cfg.Broker.Kind),
	}}
}

// followRevocations has access know which tokens are revoked, from now on and of before. Clients whose tokens are revoked are ended.
func (n *node) followRevocations(ctx context.Context, a *access, log *slog.Logger) (err error) {
	if n.tokens.connections == nil && !a.byCert {
		return nil
	}
	n.revoked, err = revocation.Open(ctx, n.hub, func() { n.gateway.EndClients(push.DisconnectInvalidToken, a.revokedIdentity) }, log)
	a.revoked = n.revoked
	return err
}

// isRevoked reports whether a token is revoked.
func (a *access) isRevoked(t *auth.Token) bool {
	return a.revoked != nil && a.revoked.Revoked(t, time.Now())
}

// revokedIdentity implements gateway.Options.Revoked.
func (a *access) revokedIdentity(id *gateway.Identity) bool {
	r, ok := id.Rights.(*rights)
	return ok && a.isRevoked(&r.token)
}

// revocations returns what the API uses to revoke tokens, nil if there are none.
func (a *access) revocations() api.Revocations {
	if a.revoked == nil {
		return nil
	}
	return a.revoked
}

// tokenCounts returns how many tokens were refused, by reason, and how many revocations there are.
func (a *access) tokenCounts() (refused map[string]uint64, revocations int) {
	refused = map[string]uint64{}
	for _, reason := range auth.Reasons() {
		refused[reason.String()] = a.tokens.refused[reason].Load()
	}
	if a.revoked != nil {
		revocations = a.revoked.Len()
	}
	return refused, revocations
}

// isSubscribed reports whether a channel is among server-side subscriptions.
func isSubscribed(list []auth.ServerSubscription, channel string) bool {
	return slices.ContainsFunc(list, func(s auth.ServerSubscription) bool { return s.Channel == channel })
}
