package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/api"
	"github.com/sluice-push/sluice/push/auth"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/permission"
	"github.com/sluice-push/sluice/push/revocation"
)

// access decides who callers are and what each may do, according to the configuration.
type access struct {
	insecure   bool
	anonymous  bool
	personal   bool // users are subscribed to their personal channels
	byCert     bool // users may be the subjects of certificates
	tokens     *tokens
	revoked    *revocation.Book // nil: no tokens are accepted
	clients    permission.Rules
	rules      map[string]config.Allow // of the API, by namespace
	joins      map[string]joinRule     // by namespace; namespaces without join and leave pushes have none
	keys       *config.Keys
	namespaces []hub.Namespace
}

// newAccess returns the access that a configuration gives. The caller closes tokens when the access is not used any more.
func newAccess(cfg *config.Config, insecure bool, t *tokens, keys *config.Keys) *access {
	a := &access{
		insecure: insecure, anonymous: cfg.Auth.Anonymous, personal: cfg.Auth.PersonalChannel,
		byCert: cfg.Auth.ClientCertificates, tokens: t, clients: permissions(cfg), rules: map[string]config.Allow{}, joins: map[string]joinRule{}, keys: keys,
	}
	for _, ns := range cfg.Namespaces {
		a.rules[ns.Name] = ns.Allow
		if ns.JoinLeave {
			a.joins[ns.Name] = joinRule{exists: true, force: ns.ForcePushJoinLeave}
		}
		a.namespaces = append(a.namespaces, hub.Namespace{
			Namespace: broker.Namespace{
				Name: ns.Name, Mode: ns.Mode, History: ns.History.Push(), Partitions: ns.Partitions, Durable: ns.Durable.With(cfg.Broker.Kind),
			},
			Presence:    insecure || len(ns.Allow.Presence) > 0,
			JoinLeave:   ns.JoinLeave,
			Interval:    time.Duration(ns.Interval),
			MinInterval: time.Duration(ns.MinInterval),
			Priority:    ns.Priority,
			Deltas:      ns.Delta,
			Slow:        ns.Slow,
		})
	}
	if cfg.Auth.KnowsUsers() || cfg.Role == cluster.Hub { // a hub that serves gateways only knows no users, but its gateways may
		a.namespaces = append(a.namespaces, revocationsNamespace(cfg))
	}
	return a
}

// joinRule says which subscribers get the join and leave pushes of a namespace.
type joinRule struct {
	exists bool // the namespace has them
	force  bool // every subscriber gets them, not only a subscriber that asks and may read the presence
}

// joinsOf returns the rule for a channel.
func (a *access) joinsOf(channel string) joinRule { return a.joins[push.Namespace(channel)] }

// forces reports whether a subscription gets the pushes without asking, with what its token says.
func (r joinRule) forces(o *auth.Override) bool {
	if o.ForcePushJoinLeave != nil {
		return r.exists && *o.ForcePushJoinLeave
	}
	return r.force
}

// permissions returns the rules for clients that a configuration has.
func permissions(cfg *config.Config) permission.Rules {
	rules := permission.Rules{}
	for _, ns := range cfg.Namespaces {
		n := permission.Namespace{Private: ns.Private}
		for action, callers := range [...][]config.Caller{
			push.ActionSubscribe: ns.Allow.Subscribe, push.ActionPublish: ns.Allow.Publish, push.ActionHistory: ns.Allow.History,
			push.ActionPresence: ns.Allow.Presence,
		} {
			for _, caller := range callers {
				switch caller {
				case config.CallerAnonymous:
					n.Anonymous |= 1 << action
				case config.CallerUser:
					n.User |= 1 << action
				}
			}
		}
		rules[ns.Name] = n
	}
	return rules
}

// authenticate implements gateway.Options.Authenticate. With --insecure it admits every client, whatever its token.
func (a *access) authenticate(ctx context.Context, token string, r *http.Request) (gateway.Identity, error) {
	shows := token == "" && a.byCert && r != nil && r.TLS != nil && len(r.TLS.PeerCertificates) > 0
	switch {
	case a.insecure:
		return gateway.Identity{}, nil
	case shows:
		c, err := auth.OfCertificate(r.TLS.PeerCertificates[0])
		if err != nil {
			return gateway.Identity{}, a.tokens.refuse(err, push.DisconnectInvalidToken)
		}
		return a.identify(c)
	case token == "" && a.anonymous:
		return gateway.Identity{}, nil
	case token == "":
		return gateway.Identity{}, errNoToken
	}
	c, err := a.tokens.connection(ctx, token)
	if err != nil {
		return gateway.Identity{}, err
	}
	return a.identify(c)
}

// identify returns the identity of a client whose token or certificate is valid.
func (a *access) identify(c *auth.Connection) (gateway.Identity, error) {
	switch {
	case a.isRevoked(&c.Token):
		return gateway.Identity{}, a.tokens.refuse(errRevoked, push.DisconnectInvalidToken)
	case c.User == "" && !a.anonymous:
		return gateway.Identity{}, errNoUser
	}
	id := gateway.Identity{
		Info: push.ClientInfo{User: c.User, ConnInfo: c.Info}, Expires: c.Expires, Claims: c.Claims, Rights: &rights{c.Token, c.Capabilities},
	}
	for _, s := range c.Subscriptions {
		id.Subscriptions = append(id.Subscriptions, gateway.ServerSubscription{
			Channel: s.Channel, Info: s.Info, Data: s.Data, JoinLeave: a.joinsOf(s.Channel).forces(&s.Override),
		})
	}
	if name := "#" + c.User; a.personal && c.User != "" && !isSubscribed(c.Subscriptions, name) {
		id.Subscriptions = append(id.Subscriptions, gateway.ServerSubscription{Channel: name, JoinLeave: a.joinsOf(name).force})
	}
	return id, nil
}

// What clients are told that do not say who they are. They connect again only when their application gives them a token.
var (
	errNoToken = push.Disconnect{Code: push.DisconnectInvalidToken.Code, Reason: "invalid token: a token is required"}
	errNoUser  = push.Disconnect{Code: push.DisconnectInvalidToken.Code, Reason: "invalid token: it names no user"}
)

var errRevoked = &auth.Error{Reason: auth.Revoked, Cause: errors.New("it was revoked")}

// permit implements gateway.Options.Permit.
func (a *access) permit(ctx context.Context, id *gateway.Identity, r *gateway.PermitRequest) (gateway.Permission, error) {
	if a.insecure {
		if _, ok := a.clients[push.Namespace(r.Channel)]; !ok {
			return gateway.Permission{}, push.UnknownChannel(r.Channel)
		}
		return gateway.Permission{JoinLeave: true, ForceJoinLeave: a.joinsOf(r.Channel).force}, nil
	}
	request := permission.Request{Channel: r.Channel, Action: r.Action, User: id.Info.User}
	request.Capabilities = rightsOf(id).capabilities
	if permission.IsPrivate(r.Channel) || a.clients[push.Namespace(r.Channel)].Private {
		request.Subscribed = r.Action != push.ActionSubscribe && r.Subscribed()
	}
	var given gateway.Permission
	if r.Token != "" {
		token, err := a.tokens.subscription(ctx, r.Token)
		if err == nil && a.isRevoked(&token.Token) {
			err = a.tokens.refuse(errRevoked, push.ErrPermissionDenied)
		}
		if err != nil {
			return given, err
		}
		request.Token, given = token, gateway.Permission{Info: token.Info, Expires: token.Expires}
	}
	if _, err := a.clients.Decide(&request); err != nil {
		return given, err
	}
	if rule := a.joinsOf(r.Channel); rule.exists && r.Action == push.ActionSubscribe {
		request.Action, request.Subscribed = push.ActionPresence, true // as soon as it is subscribed
		_, err := a.clients.Decide(&request)
		given.JoinLeave, given.ForceJoinLeave = err == nil, rule.force
		if request.Token != nil {
			given.ForceJoinLeave = rule.forces(&request.Token.Override)
		}
	}
	return given, nil
}

// allow implements api.Options.Allow. It allows unknown namespaces, because the hub refuses them.
func (a *access) allow(channel string, action api.Action) bool {
	rule, ok := a.rules[push.Namespace(channel)]
	switch {
	case !ok:
		return push.Namespace(channel) != revocation.Namespace
	case a.insecure:
		return true
	}
	switch action {
	case api.Publish:
		return slices.Contains(rule.Publish, config.CallerAPI)
	case api.History:
		return slices.Contains(rule.History, config.CallerAPI)
	default:
		return slices.Contains(rule.Presence, config.CallerAPI)
	}
}

// authorize implements api.Options.Authorize.
func (a *access) authorize(key string, scope api.Scope) (g api.Grant) {
	if a.insecure {
		return api.Grant{Known: true, Allowed: true}
	}
	for _, k := range a.keys.Now() {
		if !k.Hash.Match(key) { // every key is compared, so that the time does not reveal which one matched
			continue
		}
		g = api.Grant{Known: true, Allowed: slices.Contains(k.Scopes, config.Scope(scope))}
		if len(k.Namespaces) > 0 {
			g.Namespace = func(name string) bool { return slices.Contains(k.Namespaces, name) }
		}
	}
	return g
}
