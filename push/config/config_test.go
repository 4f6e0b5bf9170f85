package config_test

import (
	"bytes"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/admission"
	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/config"
)

// load is Parse with everything but the file left out.
func load(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("config.yaml", []byte(text), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func defaultText(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	if err := config.WriteDefault(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDefault(t *testing.T) {
	if err := config.Default().Validate(); err != nil {
		t.Errorf("the default is not valid: %v", err)
	}
	if got := load(t, ""); !reflect.DeepEqual(got, config.Default()) {
		t.Errorf("an empty file gives %+v, want the default", got)
	}
	if got := load(t, defaultText(t)); !reflect.DeepEqual(got, config.Default()) {
		t.Errorf("the default file gives\n%+v, want\n%+v", got, config.Default())
	}
}

// The examples in the default file are valid: if their # is removed, the file loads.
func TestDefaultExamples(t *testing.T) {
	text := regexp.MustCompile(`(?m)^( *)#(\S)`).ReplaceAllString(defaultText(t), "$1$2")
	c := load(t, text)
	if len(c.API.Keys) != 1 || !c.API.Keys[0].Hash.Match("secret") {
		t.Errorf("api.keys = %+v, want the hash of the word secret", c.API.Keys)
	}
	if len(c.Namespaces) != 2 || c.Namespaces[1].Mode != push.Table {
		t.Errorf("namespaces = %+v, want a table as the second", c.Namespaces)
	}
}

// A cluster is read as package cluster wants it.
func TestCluster(t *testing.T) {
	c := load(t, `
role: hub
listen: ""
cluster:
  name: prod
  labels: {zone: a, "odd.name": "1"}
  link: {listen: ":7000", secret: s}
  placement: {policy: zone, pinned: {quotes: {tier: vip}}}
  route:
    policy: user
    require: [{name: vip, claims: {tier: vip}, prefixes: [10.0.0.1, "10.1.0.0/16"], labels: {tier: "{tier}"}}]
    canary: {name: new, share: 0.25, labels: {release: next}}
    prefer: [{name: near, order: [{zone: a}, {zone: b}]}]
    bound: 0
namespaces: [{name: quotes}]
`).Cluster
	if want := (cluster.Labels{"zone": "a", "odd.name": "1"}); !reflect.DeepEqual(c.Labels, want) {
		t.Errorf("labels = %v, want %v", c.Labels, want)
	}
	if want := (&cluster.Placement{
		Policy: cluster.PlaceByZone, ZoneLabel: "zone", Pinned: map[string]cluster.Labels{"quotes": {"tier": "vip"}},
	}); !reflect.DeepEqual(c.Placement.Rules(), want) {
		t.Errorf("placement = %+v, want %+v", c.Placement.Rules(), want)
	}
	rules, err := c.Route.Rules()
	want := &cluster.Rules{
		Policy: cluster.ByUser, Bound: -1, Addresses: 3,
		Require: []cluster.Require{{Name: "vip", Labels: cluster.Labels{"tier": "{tier}"}, When: cluster.When{
			Claims: cluster.Labels{"tier": "vip"}, Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("10.1.0.0/16")},
		}}},
		Canary: &cluster.Canary{Name: "new", Share: 0.25, Labels: cluster.Labels{"release": "next"}},
		Prefer: []cluster.Prefer{{Name: "near", Order: []cluster.Labels{{"zone": "a"}, {"zone": "b"}}}},
	}
	if err != nil || !reflect.DeepEqual(rules, want) {
		t.Errorf("route = %+v, %v; want %+v", rules, err, want)
	}
}

// The default file mentions every key.
func TestDefaultFileIsComplete(t *testing.T) {
	text := defaultText(t)
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		if typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct {
			return
		}
		for i := range typ.NumField() {
			name := typ.Field(i).Tag.Get("yaml")
			if !regexp.MustCompile(`(?m)(^ *#?|- |[{,] ?)` + name + `:`).MatchString(text) {
				t.Errorf("the default file does not mention the key %s of %s", name, typ)
			}
			walk(typ.Field(i).Type)
		}
	}
	walk(reflect.TypeFor[config.Config]())
}

const full = `
listen: "127.0.0.1:8100"
internal: ""
tcp: {listen: "unix:/run/sluice.sock", tls: {cert: /etc/cert.pem, key: /etc/key.pem}}
role: all
data: /var/lib/sluice
broker: {kind: nats, nats: {url: "nats://a:4222, tls://b:4222", credentials: /etc/creds, replicas: 3, sync: always, max_store: 1GiB}}
auth: {anonymous: true}
api:
  keys:
    - name: backend
      hash: "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
      scopes: [publish, read, control]
limits:
  message_bytes: 1MB
  send_buffer: 131072
  sessions: 10
  sessions_per_address: 5
  subscriptions_per_session: 0
linger: 0s
ping: {interval: 1m, timeout: 500ms}
namespaces:
  - name: quotes
    mode: table
    history: {age: 1h30m, bytes: 16MiB, size: 0}
    durable: false
    slow: disconnect
    delta: [merge, fossil]
    allow: {subscribe: [anonymous, user], publish: [], history: [api], presence: [user]}
  - name: news
`

func TestLoadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(full), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := config.Load(path, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var hash config.Hash
	if err := hash.UnmarshalText([]byte(config.HashKey("secret"))); err != nil {
		t.Fatal(err)
	}
	minute := config.Duration(time.Minute)
	want := &config.Config{
		Listen: "127.0.0.1:8100",
		TCP:    config.TCP{Listen: "unix:/run/sluice.sock", TLS: config.TLS{Cert: "/etc/cert.pem", Key: "/etc/key.pem"}},
		Data:   "/var/lib/sluice",
		Role:   cluster.All,

		Cluster: config.Default().Cluster,
		Broker: config.Broker{Kind: config.BrokerNATS, NATS: config.NATS{
			URL: "nats://a:4222, tls://b:4222", Credentials: "/etc/creds", Replicas: 3,
			Sync: config.SyncAlways, MaxStore: 1 << 30,
		}},
		Auth: config.Auth{Anonymous: true, JWT: config.Default().Auth.JWT, SubscriptionJWT: config.Default().Auth.SubscriptionJWT},
		API: config.API{Keys: []config.APIKey{{
			Name: "backend", Hash: hash,
			Scopes: []config.Scope{config.ScopePublish, config.ScopeRead, config.ScopeControl},
		}}},
		Limits: config.Limits{
			MessageBytes: 1e6, SendBuffer: 128 << 10, WriteTimeout: config.Duration(10 * time.Second), Sessions: 10, SessionsPerAddress: 5,
			CommandsPerSession: 1000, CommandsPerAddress: 100_000, Dry: []admission.Name{},
		},
		Ping: config.Ping{Interval: minute, Timeout: minute / 120},
		Namespaces: []config.Namespace{{
			Name: "quotes", Mode: push.Table,
			History: config.History{Age: 90 * minute, Bytes: 16 << 20},
			Durable: config.NotDurable,
			Slow:    push.SlowDisconnect,
			Delta:   []push.Delta{push.Merge, push.Fossil},

			Partitions: 1,
			Allow: config.Allow{
				Subscribe: []config.Caller{config.CallerAnonymous, config.CallerUser},
				Publish:   []config.Caller{},
				History:   []config.Caller{config.CallerAPI},
				Presence:  []config.Caller{config.CallerUser},
			},
		}, config.DefaultNamespace("news")},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
	if h := got.Namespaces[0].History.Push(); h != (push.History{Age: 90 * time.Minute, Bytes: 16 << 20}) {
		t.Errorf("history for the broker = %+v", h)
	}
}

func TestLoadNoFile(t *testing.T) {
	if _, err := config.Load(filepath.Join(t.TempDir(), "absent.yaml"), nil, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error = %v, want one that says the file does not exist", err)
	}
	if _, err := config.Load(t.TempDir(), nil, nil); err == nil || !strings.HasPrefix(err.Error(), "config: ") {
		t.Errorf("error of reading a folder = %v", err)
	}
}

// A later source wins, and a list replaces the whole list of an earlier one.
func TestPrecedence(t *testing.T) {
	file := "listen: :1001\ninternal: :1002\nlinger: 3s\nnamespaces: [{name: a}, {name: b}]\n"
	env := []string{
		"SLUICE_INTERNAL=:2002", "SLUICE_LINGER=4s", "SLUICE_NAMESPACES=[{name: c, mode: value}]", "SLUICE_LISTEN=",
		"HOME=/", "SLUICE_API_KEY=x", "SLUICE_URL=x",
	}
	c, err := config.Parse("f", []byte(file), env, map[string]string{"linger": "5s", "limits.message_bytes": "1KiB"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != ":1001" || c.Internal != ":2002" || c.Linger.String() != "5s" || c.Limits.MessageBytes != 1<<10 {
		t.Errorf("got %+v", c)
	}
	if len(c.Namespaces) != 1 || c.Namespaces[0].Name != "c" || c.Namespaces[0].Mode != push.Value {
		t.Errorf("namespaces = %+v, want c only", c.Namespaces)
	}
	if c, err = config.Parse("", nil, nil, map[string]string{"internal": ""}); err != nil || c.Internal != "" {
		t.Errorf("an empty flag gives %+v, %v: want no internal address", c, err)
	}
}

// samples holds for every key outside lists a value that is not its default.
var samples = map[string]string{
	"listen": ":7", "internal": ":8", "auth.anonymous": "true", "auth.personal_channel": "true",
	"auth.jwt.user_claim": "user", "auth.jwt.leeway": "1m", "auth.subscription_jwt.user_claim": "user", "auth.subscription_jwt.leeway": "1m",
	"limits.message_bytes": "1MiB", "limits.send_buffer": "32KiB", "limits.write_timeout": "20s",
	"limits.backlog": "8MiB", "limits.sessions": "7", "limits.commands_per_session": "5", "limits.commands_per_address": "6", "limits.sessions_per_address": "8", "limits.subscriptions_per_session": "9", "limits.bandwidth": "10KiB", "linger": "1s", "shutdown.delay": "1s", "shutdown.spread": "2s",
	"limits.sessions_per_user": "3", "limits.connects": "100", "limits.connects_per_address": "10", "limits.bytes_per_session": "1MiB",
	"limits.token_checks": "4", "limits.dry": "[connects, backlog]",
	"ping.interval": "60s", "ping.timeout": "3s", "namespaces": "[{name: x}]",
	"compression":     "true",
	"trusted_proxies": "[10.0.0.0/8]",
	"origins":         `["https://example.org"]`,
	"api.keys_file":   "/etc/keys.yaml",
	"api.keys":        `[{name: x, hash: "` + config.HashKey("k") + `", scopes: [read]}]`,
	"grpc.listen":     ":9", "grpc.shared": "true",
	"tcp.listen": "unix:/x", "tcp.tls.cert": "/c", "tcp.tls.key": "/k",
	"data": "/x", "broker.nats.url": "nats://h:1", "broker.nats.listen": "127.0.0.1:1", "broker.nats.sync": "always", "broker.nats.max_store": "1GiB",
	"cluster.name": "c", "cluster.node": "n", "cluster.labels": "{zone: a}", "cluster.weight": "50",
	"cluster.advertise.public": "https://a.example", "cluster.advertise.link": "a:1",
	"cluster.discovery.kind": "static", "cluster.discovery.addresses": "[a:1]", "cluster.discovery.service": "/other",
	"cluster.link.connections": "4", "cluster.link.secret": "x", "cluster.link.secret_file": "/x", "cluster.link.ca": "/ca",
	"cluster.placement.policy": "zone", "cluster.placement.zone_label": "rack", "cluster.placement.pinned": `{"": {zone: a}}`,
	"cluster.route.policy": "user", "cluster.route.require": "[{name: a, labels: {x: y}}]", "cluster.route.canary.name": "c",
	"cluster.route.canary.share": "0.5", "cluster.route.canary.labels": "{x: y}", "cluster.route.prefer": "[{name: a, order: [{x: y}]}]",
	"cluster.route.groups": "[{name: a, channels: [b]}]", "cluster.route.bound": "1.2", "cluster.route.addresses": "4",
	"cluster.rebind.rate": "0", "cluster.rebind.skew": "2", "cluster.rebind.cooldown": "0s",
	// These have no other value that is valid alone; a wrong one must be refused, which shows that the variable is read.
	"auth.jwt.algorithms": "[HS256]", "auth.jwt.secret": "x", "auth.jwt.secret_file": "x", "auth.jwt.previous_secret_file": "x", "auth.jwt.public_key_file": "x", "auth.jwt.jwks_url": "x",
	"auth.jwt.issuer": "x", "auth.jwt.audience": "[x]",
	"auth.subscription_jwt.algorithms": "[HS256]", "auth.subscription_jwt.secret": "x", "auth.subscription_jwt.secret_file": "x", "auth.subscription_jwt.previous_secret_file": "x",
	"auth.subscription_jwt.public_key_file": "x", "auth.subscription_jwt.jwks_url": "x", "auth.subscription_jwt.issuer": "x", "auth.subscription_jwt.audience": "[x]",
	"role": "hubs", "broker.kind": "kafka", "broker.nats.replicas": "2", "broker.nats.credentials": "x", "tls.cert": "x", "tls.key": "x",
	"cluster.link.listen": "127.0.0.1:1", "cluster.link.tls.cert": "x", "cluster.link.tls.key": "x", "cluster.link.tls.client_ca": "x",
	"cluster.link.tls.require_client": "true",
	"proxy_protocol":                  "true", "tcp.proxy_protocol": "true", "grpc.proxy_protocol": "true",
	"internal_tls.cert": "x", "internal_tls.key": "x", "internal_tls.client_ca": "x", "internal_tls.require_client": "true",
	"tls.client_ca": "x", "tls.require_client": "true", "tcp.tls.client_ca": "x", "tcp.tls.require_client": "true", "auth.client_certificates": "true",
}

// isRefusedAlone reports whether the sample of a key is refused: because of itself, or because other keys have to be set with it.
func isRefusedAlone(key string) bool {
	if strings.Contains(key, "tls.") {
		return true
	}
	group, name, _ := strings.Cut(strings.TrimPrefix(key, "auth."), ".")
	if group == "jwt" || group == "subscription_jwt" {
		return name != "user_claim" && name != "leeway"
	}
	return slices.Contains([]string{
		"role", "cluster.link.listen", "broker.kind", "broker.nats.replicas", "broker.nats.credentials",
		"proxy_protocol", "tcp.proxy_protocol", "grpc.proxy_protocol", "auth.client_certificates",
	}, key)
}

// Every key can be set by its variable and by a flag; a key that is added without a sample fails here.
func TestEveryKeyHasVariableAndFlag(t *testing.T) {
	keys := leafKeys("", reflect.TypeFor[config.Config]())
	if len(keys) != len(samples) {
		t.Errorf("%d keys, %d samples", len(keys), len(samples))
	}
	for _, key := range keys {
		t.Run(key, func(t *testing.T) {
			value, ok := samples[key]
			if !ok {
				t.Fatal("no sample value for this key")
			}
			name := "SLUICE_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
			fromEnv, errEnv := config.Parse("", nil, []string{name + "=" + value}, nil)
			fromFlag, errFlag := config.Parse("", nil, nil, map[string]string{key: value})
			if isRefusedAlone(key) {
				if errEnv == nil || errFlag == nil || !strings.Contains(errEnv.Error(), "("+name) {
					t.Errorf("errors = %v, %v: want both to refuse %s", errEnv, errFlag, value)
				}
				return
			}
			if errEnv != nil || errFlag != nil {
				t.Fatal(errEnv, errFlag)
			}
			if !reflect.DeepEqual(fromEnv, fromFlag) || reflect.DeepEqual(fromEnv, config.Default()) {
				t.Errorf("variable gives\n%+v, flag gives\n%+v: want the same, not the default", fromEnv, fromFlag)
			}
		})
	}
}

// leafKeys returns the paths of the keys outside lists, by the rules of the documentation rather than those of the code.
func leafKeys(prefix string, typ reflect.Type) []string {
	var keys []string
	for i := range typ.NumField() {
		key := prefix + typ.Field(i).Tag.Get("yaml")
		if t := typ.Field(i).Type; t.Kind() == reflect.Struct {
			keys = append(keys, leafKeys(key+".", t)...)
		} else {
			keys = append(keys, key)
		}
	}
	return keys
}
