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
	weborigin "github.com/sluice-push/sluice/push/origin"
)

// Validate reports everything that is wrong with c as an [*Error], without places: use it for a configuration made by code.
// [Load] and [Parse] have done it already.
func (c *Config) Validate() error {
	r := newReport()
	c.check(r)
	return r.err()
}

func (c *Config) check(r *report) {
	checkAddress(r, "listen", c.Listen)
	if c.Internal != "" {
		checkAddress(r, "internal", c.Internal)
		if _, port, _ := net.SplitHostPort(c.Internal); c.Internal == c.Listen && port != "0" {
			r.invalid("internal", "%s is the public address too", quote(c.Internal))
		}
	}
	if c.Role != RoleAll {
		r.invalid("role", "%s is not a role of this release (only %s is)", quote(c.Role), RoleAll)
	}
	c.Broker.check(r, c.Data)
	c.API.check(r)
	checkOrigins(r, c.Origins)
	c.Limits.check(r)
	if c.Broker.Kind == BrokerNATS && c.Limits.MessageBytes > natsMessageBytes && c.Limits.MessageBytes <= mostMessageBytes {
		r.invalid("limits.message_bytes", "%v is more than the broker nats stores in one publication (%v)", c.Limits.MessageBytes, Bytes(natsMessageBytes))
	}
	checkRange(r, "linger", c.Linger, 0, Duration(24*time.Hour))
	c.Ping.check(r)
	c.checkNamespaces(r)
}

func (b Broker) check(r *report, data string) {
	if b.Kind != BrokerMemory && b.Kind != BrokerNATS {
		r.invalid("broker.kind", "%s is not a broker of this release (%s and %s are)", quote(b.Kind), BrokerNATS, BrokerMemory)
		return
	}
	isNATS, isEmbedded := b.Kind == BrokerNATS, b.Kind == BrokerNATS && b.URL == ""
	if isEmbedded && data == "" {
		r.invalid("data", "the embedded broker needs a folder")
	}
	if b.URL != "" {
		b.checkURL(r, isNATS)
	}
	if b.Credentials != "" && b.URL == "" {
		r.invalid("broker.credentials", "they are for an external server: broker.url is empty")
	}
	if b.Replicas != 1 && b.Replicas != 3 && b.Replicas != 5 {
		r.invalid("broker.replicas", "%d is not 1, 3 or 5", b.Replicas)
	} else if b.Replicas > 1 && b.URL == "" {
		r.invalid("broker.replicas", "more than one needs an external cluster: broker.url is empty")
	}
	if b.Listen != "" {
		checkAddress(r, "broker.listen", b.Listen)
		host, _, _ := net.SplitHostPort(b.Listen)
		if ip := net.ParseIP(host); !isEmbedded {
			r.invalid("broker.listen", "only an embedded server listens")
		} else if host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			r.invalid("broker.listen", "%s is not a loopback address, and whoever reaches it may publish anything: run an external server instead", quote(b.Listen))
		}
	}
	if b.Sync != SyncAlways && (b.Sync < Sync(time.Millisecond) || b.Sync > Sync(time.Hour)) {
		r.invalid("broker.sync", "%v is out of range (1ms to 1h, or always)", b.Sync)
	}
	checkRange(r, "broker.max_store", b.MaxStore, 0, 1<<50)
}

func (b Broker) checkURL(r *report, isNATS bool) {
	if !isNATS {
		r.invalid("broker.url", "a broker in memory has no address")
		return
	}
	for text := range strings.SplitSeq(b.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(text))
		if err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			r.invalid("broker.url", "there is an address in it that is not one of a NATS server (nats://host:4222, tls://host:4222)")
			return
		}
	}
}

func checkAddress(r *report, key, address string) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		r.invalid(key, "%s is not an address (host:port or :port)", quote(address))
		return
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		r.invalid(key, "%s has no port between 0 and 65535", quote(address))
	} else if strconv.FormatUint(n, 10) != port {
		r.invalid(key, "the port of %s has a leading zero", quote(address))
	}
}

// checkRange notes a value outside [low, high].
func checkRange[T Bytes | Duration | int](r *report, key string, v, low, high T) {
	if v < low || v > high {
		r.invalid(key, "%v is out of range (%v to %v)", v, low, high)
	}
}

func (a API) check(r *report) {
	names := make(map[string]bool)
	hashes := make(map[Hash]bool)
	for i, k := range a.Keys {
		key := fmt.Sprintf("api.keys[%d]", i)
		switch {
		case k.Name == "":
			r.invalid(key+".name", "a name is needed")
		case len(k.Name) > MaxNamespaceLen || !nameOK(k.Name):
			r.invalid(key+".name", "%s is not a name (%s)", quote(k.Name), nameRule)
		case names[k.Name]:
			r.invalid(key+".name", "there is another key named %s", quote(k.Name))
		}
		names[k.Name] = true
		switch {
		case k.Hash == Hash{}:
			r.invalid(key+".hash", "a hash is needed, as `sluice config hash-key` prints it")
		case hashes[k.Hash]:
			r.invalid(key+".hash", "there is another key with this hash")
		}
		hashes[k.Hash] = true
		if len(k.Scopes) == 0 {
			r.invalid(key+".scopes", "at least one scope is needed (%s, %s, %s)", ScopePublish, ScopeRead, ScopeControl)
		}
		checkSet(r, key+".scopes", k.Scopes, ScopePublish, ScopeRead, ScopeControl)
	}
}

func checkOrigins(r *report, origins []string) {
	for i, s := range origins {
		if err := weborigin.Check(s); err != nil {
			r.invalid(fmt.Sprintf("origins[%d]", i), "no page has the origin %s: %v", quote(s), err)
		}
	}
}

// checkSet notes entries of a list that are unknown or there twice.
func checkSet[T ~string](r *report, key string, list []T, known ...T) {
	for i, e := range list {
		entry := fmt.Sprintf("%s[%d]", key, i)
		switch {
		case !slices.Contains(known, e):
			r.invalid(entry, "unknown name %s", quote(string(e)))
		case slices.Contains(list[:i], e):
			r.invalid(entry, "%s is there twice", e)
		}
	}
}

const (
	mostMessageBytes = 64 << 20
	natsMessageBytes = 31 << 20 // NATS stores 32 MiB, with what is around the data
)

// The ranges are wide: they catch a slip of the unit, not a matter of taste.
func (l Limits) check(r *report) {
	checkRange(r, "limits.message_bytes", l.MessageBytes, 128, mostMessageBytes)
	checkRange(r, "limits.send_buffer", l.SendBuffer, 4<<10, 64<<20)
	checkRange(r, "limits.write_timeout", l.WriteTimeout, Duration(time.Second), Duration(time.Hour))
	if l.Backlog != 0 {
		checkRange(r, "limits.backlog", l.Backlog, 1<<20, 1<<50)
	}
	checkRange(r, "limits.sessions", l.Sessions, 0, maxInt)
	checkRange(r, "limits.sessions_per_address", l.SessionsPerAddress, 0, maxInt)
	checkRange(r, "limits.commands_per_session", l.CommandsPerSession, 0, 1_000_000)
	checkRange(r, "limits.commands_per_address", l.CommandsPerAddress, 0, 1_000_000)
	checkRange(r, "limits.subscriptions_per_session", l.SubscriptionsPerSession, 0, maxInt)
	checkRange(r, "limits.bandwidth", l.Bandwidth, 0, 4<<30)
}

func (p Ping) check(r *report) {
	if p.Interval%Duration(time.Second) != 0 {
		r.invalid("ping.interval", "%v is not a whole number of seconds", p.Interval)
		return
	}
	checkRange(r, "ping.interval", p.Interval, 0, Duration(time.Hour))
	switch {
	case p.Timeout <= 0:
		r.invalid("ping.timeout", "%v is out of range: it has to be more than 0", p.Timeout)
	case p.Interval > 0 && p.Timeout >= p.Interval:
		r.invalid("ping.timeout", "%v is not less than the interval of %v", p.Timeout, p.Interval)
	}
}

func (c *Config) checkNamespaces(r *report) {
	if len(c.Namespaces) == 0 {
		r.invalid("namespaces", "at least one namespace is needed")
	}
	names := make(map[string]bool)
	for i, n := range c.Namespaces {
		key := fmt.Sprintf("namespaces[%d]", i)
		switch {
		case len(n.Name) > MaxNamespaceLen || !nameOK(n.Name):
			r.invalid(key+".name", "%s is not a name (%s)", quote(n.Name), nameRule)
		case names[n.Name]:
			r.invalid(key+".name", "there is another namespace named %s", quote(n.Name))
		}
		names[n.Name] = true
		if n.Mode > push.Table {
			r.invalid(key+".mode", "unknown mode (use stream, value or table)")
		}
		if n.Durable == Durable && c.Broker.Kind == BrokerMemory {
			r.invalid(key+".durable", "the memory broker keeps nothing beyond the process (leave durable out, or say false)")
		}
		n.History.check(r, key+".history", n.Mode)
		checkRange(r, key+".interval", n.Interval, 0, Duration(push.MaxInterval))
		checkRange(r, key+".min_interval", n.MinInterval, 0, Duration(push.MaxInterval))
		checkRange(r, key+".priority", n.Priority, 0, push.MaxPriority)
		if _, err := n.Slow.In(n.Mode); err != nil {
			r.invalid(key+".slow", "%v", err)
		}
		for j, form := range n.Delta {
			if slices.Contains(n.Delta[:j], form) {
				r.invalid(fmt.Sprintf("%s.delta[%d]", key, j), "%s is there twice", form)
			}
		}
		n.Allow.check(r, key+".allow")
	}
}

func (h History) check(r *report, key string, mode push.Mode) {
	checkRange(r, key+".size", h.Size, 0, maxInt)
	checkRange(r, key+".bytes", h.Bytes, 0, 1<<40)
	checkRange(r, key+".age", h.Age, 0, Duration(10*365*24*time.Hour))
	if mode == push.Stream && h == (History{}) {
		r.invalid(key, "a stream without any bound (size, age, bytes) fills the memory")
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

var nameRule = fmt.Sprintf("letters, digits, '.', '-' and '_', at most %d of them", MaxNamespaceLen)

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
