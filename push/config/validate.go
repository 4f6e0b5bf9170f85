package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/admission"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/forwarded"
	weborigin "github.com/sluice-push/sluice/push/origin"
)

// Validate checks a configuration that was made by code. It returns all problems as an [*Error], without places. [Load] and [Parse] validate
// too.
func (c *Config) Validate() error {
	r := newReport()
	c.check(r)
	return r.err()
}

func (c *Config) check(r *report) {
	if c.Listen != "" || c.Role != cluster.Hub {
		checkAddress(r, "listen", c.Listen)
	}
	if c.Internal != "" {
		checkAddress(r, "internal", c.Internal)
		if _, port, _ := net.SplitHostPort(c.Internal); c.Internal == c.Listen && port != "0" {
			r.invalid("internal", "%s is also the public address: use another one", quote(c.Internal))
		}
	}
	c.TLS.check(r, "tls")
	c.InternalTLS.check(r, "internal_tls")
	if c.GRPC.Listen != "" {
		checkAddress(r, "grpc.listen", c.GRPC.Listen)
		if _, port, _ := net.SplitHostPort(c.GRPC.Listen); port != "0" && (c.GRPC.Listen == c.Listen || c.GRPC.Listen == c.Internal) {
			r.invalid("grpc.listen", "%s is also the public or the internal address: use another one, or leave it out", quote(c.GRPC.Listen))
		}
	}
	c.checkTCP(r)
	if c.Role != cluster.Gateway {
		c.Broker.check(r, c.Data)
	}
	c.checkCluster(r)
	c.Auth.check(r)
	if c.Auth.ClientCertificates && c.TLS.ClientCA == "" && c.TCP.TLS.ClientCA == "" {
		r.invalid("auth.client_certificates", "clients are not asked for certificates: set tls.client_ca or tcp.tls.client_ca")
	}
	checkKeys(r, "api.keys", c.API.Keys, nil, c.Namespaces)
	checkOrigins(r, c.Origins)
	for i, entry := range c.TrustedProxies {
		if _, err := forwarded.Parse([]string{entry}); err != nil {
			r.invalid(fmt.Sprintf("trusted_proxies[%d]", i), "%v", err)
		}
	}
	c.checkProxyProtocol(r)
	c.Limits.check(r)
	if c.Broker.Kind == BrokerNATS && c.Limits.MessageBytes > natsMessageBytes && c.Limits.MessageBytes <= mostMessageBytes {
		r.invalid("limits.message_bytes", "%v exceeds the largest publication of the broker nats, %v", c.Limits.MessageBytes, Bytes(natsMessageBytes))
	}
	checkRange(r, "linger", c.Linger, 0, Duration(24*time.Hour))
	c.Ping.check(r)
	checkRange(r, "shutdown.delay", c.Shutdown.Delay, 0, Duration(time.Hour))
	checkRange(r, "shutdown.spread", c.Shutdown.Spread, 0, Duration(time.Hour))
	c.checkNamespaces(r)
}

func (b Broker) check(r *report, data string) {
	if b.Kind != BrokerMemory && b.Kind != BrokerNATS {
		r.invalid("broker.kind", "unknown broker %s: use %s or %s", quote(b.Kind), BrokerNATS, BrokerMemory)
		return
	}
	if b.Kind != BrokerNATS && b.NATS.URL != "" {
		r.invalid("broker.nats.url", "not allowed with broker.kind %s: set broker.kind to nats, or leave the URL out", b.Kind)
		return
	}
	isEmbedded := b.Kind == BrokerNATS && b.NATS.URL == ""
	if isEmbedded && data == "" {
		r.invalid("data", "the embedded broker needs a data folder")
	}
	b.NATS.check(r, isEmbedded)
}

func (n NATS) check(r *report, isEmbedded bool) {
	if n.URL != "" {
		n.checkURL(r)
	}
	if n.Credentials != "" && n.URL == "" {
		r.invalid("broker.nats.credentials", "credentials are for an external server: set broker.nats.url, or leave them out")
	}
	if n.Replicas != 1 && n.Replicas != 3 && n.Replicas != 5 {
		r.invalid("broker.nats.replicas", "%d is not valid: use 1, 3 or 5", n.Replicas)
	} else if n.Replicas > 1 && n.URL == "" {
		r.invalid("broker.nats.replicas", "more than one replica needs an external cluster: set broker.nats.url")
	}
	if n.Listen != "" {
		checkAddress(r, "broker.nats.listen", n.Listen)
		host, _, _ := net.SplitHostPort(n.Listen)
		if ip := net.ParseIP(host); !isEmbedded {
			r.invalid("broker.nats.listen", "only the embedded server listens: leave it out")
		} else if host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			r.invalid("broker.nats.listen", "%s is not a loopback address, and every program that reaches it could publish: use loopback, or an external server", quote(n.Listen))
		}
	}
	if n.Sync != SyncAlways && (n.Sync < Sync(time.Millisecond) || n.Sync > Sync(time.Hour)) {
		r.invalid("broker.nats.sync", "%v is out of range: use 1ms to 1h, or always", n.Sync)
	}
	checkRange(r, "broker.nats.max_store", n.MaxStore, 0, 1<<50)
}

func (n NATS) checkURL(r *report) {
	for text := range strings.SplitSeq(n.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(text))
		if err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			r.invalid("broker.nats.url", "contains an invalid address: use nats://host:4222 or tls://host:4222")
			return
		}
	}
}

func (c *Config) checkTCP(r *report) {
	address := c.TCP.Listen
	switch path, isUnix := strings.CutPrefix(address, UnixPrefix); {
	case isUnix:
		checkSocketPath(r, "tcp.listen", path)
	case address != "":
		checkAddress(r, "tcp.listen", address)
		if _, port, _ := net.SplitHostPort(address); port != "0" && (address == c.Listen || address == c.Internal) {
			r.invalid("tcp.listen", "%s is also another address of the node: use another one", quote(address))
		}
	}
	c.TCP.TLS.check(r, "tcp.tls")
}

func (c *Config) checkProxyProtocol(r *report) {
	const why = "no proxy is trusted to say from where clients come: add its address to trusted_proxies"
	if c.ProxyProtocol && len(c.TrustedProxies) == 0 {
		r.invalid("proxy_protocol", why)
	}
	if c.TCP.ProxyProtocol && len(c.TrustedProxies) == 0 && !strings.HasPrefix(c.TCP.Listen, UnixPrefix) {
		r.invalid("tcp.proxy_protocol", why)
	}
	switch {
	case c.GRPC.ProxyProtocol && c.GRPC.Listen == "":
		r.invalid("grpc.proxy_protocol", "gRPC has no address of its own: set grpc.listen, or set proxy_protocol for the public address")
	case c.GRPC.ProxyProtocol && len(c.TrustedProxies) == 0:
		r.invalid("grpc.proxy_protocol", why)
	}
}

func (t TLS) check(r *report, key string) {
	switch {
	case t.Cert != "" && t.Key == "":
		r.invalid(key+".cert", "a certificate needs its key: set %s.key, or leave both out", key)
	case t.Cert == "" && t.Key != "":
		r.invalid(key+".key", "a key needs its certificate: set %s.cert, or leave both out", key)
	case t.Cert == "" && t.ClientCA != "":
		r.invalid(key+".client_ca", "certificates of clients need TLS: set %s.cert and %[1]s.key", key)
	case t.ClientCA == "" && t.RequireClient:
		r.invalid(key+".require_client", "it is not known which certificates of clients are valid: set %s.client_ca", key)
	}
}

// mostSocketPath is the longest path of a Unix socket that all systems allow.
const mostSocketPath = 103

func checkAddress(r *report, key, address string) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		r.invalid(key, "%s is not an address: use host:port or :port", quote(address))
		return
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		r.invalid(key, "%s has no valid port: use 0 to 65535", quote(address))
	} else if strconv.FormatUint(n, 10) != port {
		r.invalid(key, "the port of %s has a leading zero", quote(address))
	}
}

// checkRange reports a value outside [low, high].
func checkRange[T Bytes | Duration | int](r *report, key string, v, low, high T) {
	if v < low || v > high {
		r.invalid(key, "%v is out of range: use %v to %v", v, low, high)
	}
}

// checkKeys reports keys that are not valid. list is where they are, others are keys that are valid besides them.
func checkKeys(r *report, list string, keys, others []APIKey, namespaces []Namespace) {
	names := make(map[string]bool)
	hashes := make(map[Hash]bool)
	for _, k := range others {
		names[k.Name], hashes[k.Hash] = true, true
	}
	var known []string
	for _, ns := range namespaces {
		known = append(known, ns.Name)
	}
	for i, k := range keys {
		key := fmt.Sprintf("%s[%d]", list, i)
		switch {
		case k.Name == "":
			r.invalid(key+".name", "name is missing")
		case len(k.Name) > MaxNamespaceLen || !nameOK(k.Name):
			r.invalid(key+".name", "%s is not a valid name: use %s", quote(k.Name), nameRule)
		case names[k.Name]:
			r.invalid(key+".name", "duplicate key name %s", quote(k.Name))
		}
		names[k.Name] = true
		switch {
		case k.Hash == Hash{}:
			r.invalid(key+".hash", "hash is missing: use the one that `sluice config hash-key` prints")
		case hashes[k.Hash]:
			r.invalid(key+".hash", "duplicate hash: another key has the same one")
		}
		hashes[k.Hash] = true
		if len(k.Scopes) == 0 {
			r.invalid(key+".scopes", "no scope: use at least one of %s, %s and %s", ScopePublish, ScopeRead, ScopeControl)
		}
		checkSet(r, key+".scopes", k.Scopes, ScopePublish, ScopeRead, ScopeControl)
		checkSet(r, key+".namespaces", k.Namespaces, known...)
	}
}

func checkOrigins(r *report, origins []string) {
	for i, s := range origins {
		if err := weborigin.Check(s); err != nil {
			r.invalid(fmt.Sprintf("origins[%d]", i), "invalid origin %s: %v", quote(s), err)
		}
	}
}

// checkSet reports entries of a list that are unknown or duplicate.
func checkSet[T ~string](r *report, key string, list []T, known ...T) {
	for i, e := range list {
		entry := fmt.Sprintf("%s[%d]", key, i)
		switch {
		case !slices.Contains(known, e):
			r.invalid(entry, "unknown name %s", quote(string(e)))
		case slices.Contains(list[:i], e):
			r.invalid(entry, "duplicate entry %s", e)
		}
	}
}

const (
	mostMessageBytes = 64 << 20
	natsMessageBytes = 31 << 20 // NATS stores messages of 32 MiB, with their headers
)

// check reports values out of range. The ranges are wide: they are meant to catch a wrong unit.
func (l Limits) check(r *report) {
	checkRange(r, "limits.message_bytes", l.MessageBytes, 128, mostMessageBytes)
	checkRange(r, "limits.send_buffer", l.SendBuffer, 4<<10, 64<<20)
	checkRange(r, "limits.write_timeout", l.WriteTimeout, Duration(time.Second), Duration(time.Hour))
	if l.Backlog != 0 {
		checkRange(r, "limits.backlog", l.Backlog, 1<<20, 1<<50)
	}
	checkRange(r, "limits.sessions", l.Sessions, 0, maxInt)
	checkRange(r, "limits.sessions_per_address", l.SessionsPerAddress, 0, maxInt)
	checkRange(r, "limits.sessions_per_user", l.SessionsPerUser, 0, maxInt)
	checkRange(r, "limits.connects", l.Connects, 0, 1_000_000)
	checkRange(r, "limits.connects_per_address", l.ConnectsPerAddress, 0, 1_000_000)
	checkRange(r, "limits.commands_per_session", l.CommandsPerSession, 0, 1_000_000)
	checkRange(r, "limits.commands_per_address", l.CommandsPerAddress, 0, 1_000_000)
	checkRange(r, "limits.bytes_per_session", l.BytesPerSession, 0, 4<<30)
	checkRange(r, "limits.subscriptions_per_session", l.SubscriptionsPerSession, 0, maxInt)
	checkRange(r, "limits.bandwidth", l.Bandwidth, 0, 4<<30)
	checkRange(r, "limits.token_checks", l.TokenChecks, 0, 10_000)
	for i, name := range l.Dry {
		entry := fmt.Sprintf("limits.dry[%d]", i)
		switch {
		case !slices.Contains(admission.Names(), name):
			r.invalid(entry, "unknown limit %s: use %s", quote(string(name)), choices(admission.Names()))
		case slices.Contains(l.Dry[:i], name):
			r.invalid(entry, "duplicate entry %s", name)
		}
	}
}

func (p Ping) check(r *report) {
	if p.Interval%Duration(time.Second) != 0 {
		r.invalid("ping.interval", "%v is not a whole number of seconds: round it", p.Interval)
		return
	}
	checkRange(r, "ping.interval", p.Interval, 0, Duration(time.Hour))
	switch {
	case p.Timeout <= 0:
		r.invalid("ping.timeout", "%v is out of range: use more than 0", p.Timeout)
	case p.Interval > 0 && p.Timeout >= p.Interval:
		r.invalid("ping.timeout", "%v must be less than ping.interval, %v", p.Timeout, p.Interval)
	}
}

func (c *Config) checkNamespaces(r *report) {
	if len(c.Namespaces) == 0 {
		r.invalid("namespaces", "no namespaces: add at least one")
	}
	names := make(map[string]bool)
	for i, n := range c.Namespaces {
		key := fmt.Sprintf("namespaces[%d]", i)
		switch {
		case len(n.Name) > MaxNamespaceLen || !nameOK(n.Name):
			r.invalid(key+".name", "%s is not a valid name: use %s", quote(n.Name), nameRule)
		case names[n.Name]:
			r.invalid(key+".name", "duplicate namespace %s", quote(n.Name))
		}
		names[n.Name] = true
		if n.Mode > push.Table {
			r.invalid(key+".mode", "unknown mode: use stream, value or table")
		}
		if n.Durable == Durable && c.Broker.Kind == BrokerMemory {
			r.invalid(key+".durable", "the memory broker stores nothing durably: leave durable out, or set it to false")
		}
		n.History.check(r, key+".history", n.Mode)
		checkRange(r, key+".partitions", n.Partitions, 1, MaxPartitions)
		checkRange(r, key+".interval", n.Interval, 0, Duration(push.MaxInterval))
		checkRange(r, key+".min_interval", n.MinInterval, 0, Duration(push.MaxInterval))
		checkRange(r, key+".priority", n.Priority, 0, push.MaxPriority)
		if _, err := n.Slow.In(n.Mode); err != nil {
			r.invalid(key+".slow", "%v", err)
		}
		if n.ForcePushJoinLeave && !n.JoinLeave {
			r.invalid(key+".force_push_join_leave", "without join_leave there is nothing to push: set join_leave to true, or leave this out")
		}
		for j, form := range n.Delta {
			if slices.Contains(n.Delta[:j], form) {
				r.invalid(fmt.Sprintf("%s.delta[%d]", key, j), "duplicate entry %s", form)
			}
		}
		n.Allow.check(r, key+".allow")
	}
	if c.Auth.PersonalChannel && !names[""] {
		r.invalid("auth.personal_channel", "personal channels are in the namespace without a name, which does not exist: add it")
	}
}

func (h History) check(r *report, key string, mode push.Mode) {
	checkRange(r, key+".size", h.Size, 0, maxInt)
	checkRange(r, key+".bytes", h.Bytes, 0, 1<<40)
	checkRange(r, key+".age", h.Age, 0, Duration(10*365*24*time.Hour))
	if mode == push.Stream && h == (History{}) {
		r.invalid(key, "a stream needs a limit: set size, age or bytes")
	}
}

func (a Allow) check(r *report, key string) {
	for _, list := range [...]struct {
		name    string
		callers []Caller
	}{{"subscribe", a.Subscribe}, {"publish", a.Publish}, {"history", a.History}, {"presence", a.Presence}} {
		checkSet(r, key+"."+list.name, list.callers, CallerAnonymous, CallerUser, CallerAPI)
	}
}

var nameRule = fmt.Sprintf("at most %d letters, digits, '.', '-' and '_'", MaxNamespaceLen)

// nameOK reports whether a name consists of letters, digits, '.', '-' and '_' of ASCII.
func nameOK(name string) bool {
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}
