// Package config defines the configuration of a node, merges it from its sources, and validates it.
//
// The sources are the defaults ([Default]), a YAML file, environment variables and command line flags; a later one wins. [Load] merges them.
// Every key outside lists has a variable: SLUICE_ and the path of the key in upper case, so limits.message_bytes is SLUICE_LIMITS_MESSAGE_BYTES.
// A list is given as a whole, as YAML text (SLUICE_NAMESPACES='[{name: quotes, mode: table}]'), and replaces the list of the file.
//
// Unknown keys and variables, wrong types, duplicate keys and values out of range are refused. One [*Error] contains all of these problems, each
// with the file, line and column, the variable, or the flag. Only plain YAML is accepted: anchors, aliases, merge keys, tags and several
// documents in one file are refused too.
//
// API keys are given by their hash ([HashKey]). Secrets of tokens are better kept in files of their own, which the configuration names. Neither
// hashes nor secrets are printed.
package config

import (
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/admission"
	"github.com/sluice-push/sluice/push/cluster"
)

// Config is the configuration of a node. It is plain data: make one with [Load], [Parse] or [Default], and do not change it once it is in use.
type Config struct {
	// Listen is the public address, "host:port", for client transports and the HTTP API. An empty host means all addresses. With port 0 the
	// kernel chooses the port. A hub may have none.
	Listen string `yaml:"listen"`
	// Internal is the address for operators, with health, metrics and profiles. Empty means none.
	Internal string `yaml:"internal"`
	// InternalTLS is the certificate of the internal address.
	InternalTLS TLS `yaml:"internal_tls"`
	// TLS is the certificate of the public address and of the address of gRPC.
	TLS TLS `yaml:"tls"`
	// GRPC says where clients that speak gRPC connect.
	GRPC GRPC `yaml:"grpc"`
	// TCP configures the port for clients over TCP, TLS and Unix sockets.
	TCP TCP `yaml:"tcp"`
	// Data is the folder for data that has to outlive the node: with an embedded broker, the publications. It is made if it does not exist.
	// Nodes must not share one.
	Data string `yaml:"data"`
	// Role is what the node does: all, hub or gateway. A hub needs no public address. A gateway has no broker.
	Role cluster.Role `yaml:"role"`
	// Cluster says which part the node has in a cluster.
	Cluster Cluster `yaml:"cluster"`
	// Broker configures the message queue behind the node.
	Broker Broker `yaml:"broker"`
	// Auth configures the authentication of clients.
	Auth Auth `yaml:"auth"`
	// API says which callers may use the HTTP API.
	API API `yaml:"api"`
	// Origins are the web origins whose pages may connect, such as "https://example.org"; "*" stands for all. Pages of the node's own host and
	// clients other than browsers may always connect.
	Origins []string `yaml:"origins"`
	// TrustedProxies are the addresses, or prefixes such as "10.0.0.0/8", of the proxies that are trusted to say from which address a client comes, in
	// X-Forwarded-For or Forwarded, or with the PROXY protocol.
	TrustedProxies []string `yaml:"trusted_proxies"`
	// ProxyProtocol says that the trusted proxies begin each connection to the public address with a header of the PROXY protocol, version 1 or 2.
	ProxyProtocol bool `yaml:"proxy_protocol"`
	// Compression compresses what is sent to clients that ask for it, and accepts what they compress. Native gRPC and the TCP port have none.
	Compression bool `yaml:"compression"`
	// Limits bound the resources of one client, of one address and of the node as a whole.
	Limits Limits `yaml:"limits"`
	// Linger is how long a channel stays in memory after its last subscriber has left: 0 to 24 hours.
	Linger Duration `yaml:"linger"`
	// Ping configures the heartbeat, by which the server notices that a client is gone.
	Ping Ping `yaml:"ping"`
	// Shutdown says how the node ends when it is told to.
	Shutdown Shutdown `yaml:"shutdown"`
	// Namespaces configure channels, by the part of their name before the colon. A channel whose namespace is not listed does not exist.
	Namespaces []Namespace `yaml:"namespaces"`
}

// Shutdown says how a node ends that has got SIGTERM, or a request to drain. Another SIGTERM ends both times.
type Shutdown struct {
	// Delay is for how long the node goes on as before, but is not ready, so that load balancers send new clients elsewhere: 0 to 1 hour.
	Delay Duration `yaml:"delay"`
	// Spread is the time after that over which the clients are asked to connect again, to other nodes: 0 to 1 hour; 0 is at once.
	Spread Duration `yaml:"spread"`
}

// TCP configures the port for clients that speak the protocol without HTTP.
type TCP struct {
	// Listen is the address, "host:port", or "unix:" and the path of a Unix socket. Empty means that there is no such port.
	Listen string `yaml:"listen"`
	// TLS makes clients use TLS.
	TLS TLS `yaml:"tls"`
	// ProxyProtocol is that of [Config] for this port. On a Unix socket every peer is trusted.
	ProxyProtocol bool `yaml:"proxy_protocol"`
}

// UnixPrefix begins an address that is the path of a Unix socket.
const UnixPrefix = "unix:"

// TLS is the certificate of a port. If both paths are empty, the port does not use TLS.
type TLS struct {
	// Cert and Key are the paths of PEM files: the certificate, followed by the intermediate ones, and its key. They may be the same file. They
	// are read again when they change.
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
	// ClientCA is the path of a PEM file with the certificates that sign those of clients. It is read again when it changes. If it is empty, clients
	// are not asked for certificates.
	ClientCA string `yaml:"client_ca"`
	// RequireClient refuses connections without a certificate.
	RequireClient bool `yaml:"require_client"`
}

// GRPC says where clients that speak gRPC connect.
type GRPC struct {
	// Listen is an address for gRPC alone, "host:port"; empty means none. gRPC is served on the public address too.
	Listen string `yaml:"listen"`
	// Shared says that HTTP/2 on the public address may be anything, as behind a proxy that speaks HTTP/2 to its back ends. Otherwise HTTP/2 without
	// encryption, and clients of TLS that offer nothing but h2, are taken for native gRPC, which costs less.
	Shared bool `yaml:"shared"`
	// ProxyProtocol is that of [Config] for the address Listen, which must not be empty then.
	ProxyProtocol bool `yaml:"proxy_protocol"`
}

// The kinds of brokers.
const (
	BrokerMemory = "memory" // in the process; the data is lost when the process ends
	BrokerNATS   = "nats"   // NATS JetStream, embedded in the process or external
)

// Broker configures the message queue: its kind, and a block of settings for each kind that has some. Only the block of Kind is used.
type Broker struct {
	// Kind of the broker: [BrokerNATS] or [BrokerMemory].
	Kind string `yaml:"kind"`
	// NATS is the block of [BrokerNATS].
	NATS NATS `yaml:"nats"`
}

// NATS are the settings of NATS JetStream.
type NATS struct {
	// URL is that of an external NATS server, or of several with commas between. If it is empty, a server is embedded.
	URL string `yaml:"url"`
	// Credentials is the path of a file with a JWT and a key for the external server, or empty.
	Credentials string `yaml:"credentials"`
	// Replicas is how many servers of an external cluster store each durable namespace: 1, 3 or 5. It has an effect when a namespace is first
	// used.
	Replicas int `yaml:"replicas"`
	// Listen is a loopback address on which NATS clients can reach the embedded server, or empty.
	Listen string `yaml:"listen"`
	// Sync is the interval at which the embedded server syncs acknowledged publications to the disk.
	Sync Sync `yaml:"sync"`
	// MaxStore is how much of the disk the embedded server may use. 0 means the space that is free when it starts, less a reserve.
	MaxStore Bytes `yaml:"max_store"`
}

// API says which callers may use the HTTP API.
type API struct {
	// Keys are the accepted keys. If there are none, and none in KeysFile, the API refuses every call, unless the process was deliberately
	// started without authentication.
	Keys []APIKey `yaml:"keys"`
	// KeysFile is the path of a file with more keys, a YAML list like Keys, or empty. The node reads it again when it changes; see
	// [Config.ReadKeys].
	KeysFile string `yaml:"keys_file"`
}

// APIKey is the key of one caller of the HTTP API.
type APIKey struct {
	// Name is the name of the key in logs: unique, not empty, otherwise like the name of a namespace.
	Name string `yaml:"name"`
	// Hash is the hash of the key; see [HashKey].
	Hash Hash `yaml:"hash"`
	// Scopes are the permissions of the key; at least one.
	Scopes []Scope `yaml:"scopes"`
	// Namespaces are those whose channels the key may use, each of which is configured. Such a key may not call methods that are not for a
	// channel. If there are none, the key is for all.
	Namespaces []string `yaml:"namespaces"`
}

// Scope is a permission for a part of the HTTP API.
type Scope string

// The scopes.
const (
	ScopePublish Scope = "publish" // publish, broadcast, history_remove
	ScopeRead    Scope = "read"    // history, presence, presence_stats, channels, info
	ScopeControl Scope = "control" // disconnect, unsubscribe, pace
)

// Limits bound the resources that clients may use.
type Limits struct {
	// MessageBytes is the longest command of a client, and the longest data from a caller of the API: 128 B to 64 MiB, with the broker nats at
	// most 31 MiB. See also FrameBytes.
	MessageBytes Bytes `yaml:"message_bytes"`
	// SendBuffer is how many bytes may wait to be written to one client: 4 KiB to 64 MiB.
	SendBuffer Bytes `yaml:"send_buffer"`
	// WriteTimeout is how long a client may read nothing although bytes wait for it, before its connection is closed: 1 second to 1 hour.
	WriteTimeout Duration `yaml:"write_timeout"`
	// Backlog is how many bytes may wait to be written to all clients together, at least 1 MiB. Above that, the connections with the most
	// waiting bytes are closed. 0 means an eighth of the memory that the process may use.
	Backlog Bytes `yaml:"backlog"`
	// Sessions is how many clients may be connected at a time. 0 means as many as the file descriptors, and half of the memory that the process
	// may use, suffice for. Each client counts as one descriptor, whatever carries it: connections for commands beside a stream are closed when
	// they are idle and few descriptors are left.
	Sessions int `yaml:"sessions"`
	// SessionsPerAddress is how many clients may be connected from one address; 0 means no limit.
	SessionsPerAddress int `yaml:"sessions_per_address"`
	// SessionsPerUser is how many clients of one user may be connected to this node; 0 means no limit. Anonymous clients have none.
	SessionsPerUser int `yaml:"sessions_per_user"`
	// Connects is how many clients may connect in a second, and ConnectsPerAddress how many from one address; 0 means no limit.
	Connects           int `yaml:"connects"`
	ConnectsPerAddress int `yaml:"connects_per_address"`
	// CommandsPerSession is how many commands a second of one client are executed, and CommandsPerAddress how many of all clients from one
	// address. After a rest, a burst of ten times as many is allowed. 0 means no limit.
	CommandsPerSession int `yaml:"commands_per_session"`
	CommandsPerAddress int `yaml:"commands_per_address"`
	// BytesPerSession is how many bytes a second of one client's commands are executed, at most 4 GiB; 0 means no limit. After a rest, a burst of ten
	// times as many is allowed, and of the largest message at least.
	BytesPerSession Bytes `yaml:"bytes_per_session"`
	// SubscriptionsPerSession is to how many channels one client may be subscribed; 0 means no limit.
	SubscriptionsPerSession int `yaml:"subscriptions_per_session"`
	// Bandwidth is how many bytes of publications a second are sent to one client, at most 4 GiB; 0 means no limit.
	Bandwidth Bytes `yaml:"bandwidth"`
	// TokenChecks is how many tokens with public keys are checked at the same time; 0 means twice the number of processors. Some hundred others wait
	// for each of them.
	TokenChecks int `yaml:"token_checks"`
	// Dry are the limits that are counted and logged, and not enforced.
	Dry []admission.Name `yaml:"dry"`
}

// Ping configures the heartbeat, by which the server notices that a client is gone: the server sends pings, which the client has to answer.
type Ping struct {
	// Interval is the time between two pings to a client, at most an hour; 0 sends none. It has to be in whole seconds, because clients get it
	// in seconds.
	Interval Duration `yaml:"interval"`
	// Timeout is how long the client may take to answer: more than 0, and less than the interval.
	Timeout Duration `yaml:"timeout"`
}

// Namespace configures the channels named "Name:…". The namespace with the empty name contains the channels without a colon.
type Namespace struct {
	// Name is the part before the colon: letters, digits, '.', '-' and '_', at most [MaxNamespaceLen] bytes. It is unique.
	Name string `yaml:"name"`
	// Mode says which publications a channel keeps: stream, value or table.
	Mode push.Mode `yaml:"mode"`
	// History is the retention of a channel.
	History History `yaml:"history"`
	// Durable says whether publications survive the process. The memory broker does not support that.
	Durable Durability `yaml:"durable"`
	// Partitions is into how many parts the channels are split, which are spread over the hubs of a cluster: 1 to [MaxPartitions]. Another number is another
	// namespace for the broker: publications of before are not found.
	Partitions int `yaml:"partitions"`
	// Interval is the minimum time between two updates of a subscription that does not request one; 0 means none. At most a day.
	Interval Duration `yaml:"interval"`
	// MinInterval is the shortest interval that a subscription may request, at most a day.
	MinInterval Duration `yaml:"min_interval"`
	// Priority says which subscriptions are served first if a client cannot be sent everything at once, from 0, the lowest, to 9.
	Priority int `yaml:"priority"`
	// Slow is the policy for subscriptions of clients that read too slowly. The mode has to support it.
	Slow push.Slow `yaml:"slow"`
	// Delta lists the delta encodings that clients may request; empty means none.
	Delta []push.Delta `yaml:"delta"`
	// JoinLeave tells clients that ask for it, and may read the presence, of each client that subscribes to a channel and of each that leaves.
	JoinLeave bool `yaml:"join_leave"`
	// ForcePushJoinLeave tells all subscribers of a channel, whether they ask for it and may read the presence or not. It needs JoinLeave.
	ForcePushJoinLeave bool `yaml:"force_push_join_leave"`
	// Private says that clients need a subscription token for each channel. Channels whose names begin with [push.PrivatePrefix] are private in every
	// namespace.
	Private bool `yaml:"private"`
	// Allow says which callers may do what.
	Allow Allow `yaml:"allow"`
}

// MaxNamespaceLen is the longest namespace name, in bytes. It leaves room for the rest of a channel's name.
const MaxNamespaceLen = 64

// MaxPartitions is the largest number of partitions of a namespace.
const MaxPartitions = 1024

// History is the retention of a channel, as in [push.History]: it applies to all publications of a stream, but otherwise only to the remembered
// removals, to which Bytes does not apply.
type History struct {
	// Size is the number of publications or removals; 0 means no such bound.
	Size int `yaml:"size"`
	// Age is the age of a publication or removal; 0 means no such bound.
	Age Duration `yaml:"age"`
	// Bytes is the size of all publications together; 0 means no such bound.
	Bytes Bytes `yaml:"bytes"`
}

// Push returns the bounds as a value of package push.
func (h History) Push() push.History {
	return push.History{Size: h.Size, Bytes: int64(h.Bytes), Age: time.Duration(h.Age)}
}

// Allow says which callers may do what in a namespace. An empty list means none.
type Allow struct {
	// Subscribe lists the callers that may subscribe to channels.
	Subscribe []Caller `yaml:"subscribe"`
	// Publish lists the callers that may publish.
	Publish []Caller `yaml:"publish"`
	// History lists the callers that may read the history of channels.
	History []Caller `yaml:"history"`
	// Presence lists the callers that may read which clients are subscribed.
	Presence []Caller `yaml:"presence"`
}

// Caller is a kind of caller. The kinds are disjoint: a list that admits users does not admit anonymous clients.
type Caller string

// The callers.
const (
	CallerAnonymous Caller = "anonymous" // a client without an identity
	CallerUser      Caller = "user"      // a client with an identity
	CallerAPI       Caller = "api"       // a caller of the HTTP API whose key has the scope
)

// Default returns the default configuration. It is valid, and equals the result of loading what [WriteDefault] writes.
func Default() *Config {
	return &Config{
		Listen:   ":8000",
		Internal: "127.0.0.1:9000",
		Data:     "./data",
		Role:     cluster.All,
		Cluster:  defaultCluster(),
		Broker:   Broker{Kind: BrokerNATS, NATS: NATS{Replicas: 1, Sync: Sync(2 * time.Minute)}},
		Auth:     Auth{JWT: defaultJWT(), SubscriptionJWT: defaultJWT()},
		Limits: Limits{
			MessageBytes:            64 << 10,
			SendBuffer:              64 << 10,
			WriteTimeout:            Duration(10 * time.Second),
			CommandsPerSession:      1000,
			CommandsPerAddress:      100_000,
			SubscriptionsPerSession: 128,
			Dry:                     []admission.Name{},
		},
		Linger:     Duration(30 * time.Second),
		Ping:       Ping{Interval: Duration(25 * time.Second), Timeout: Duration(8 * time.Second)},
		Namespaces: []Namespace{DefaultNamespace("")},
	}
}

// DefaultNamespace returns a namespace with default settings: stream mode, the last 100 publications of five minutes, durable if the broker
// supports that. Users may subscribe and read, and the HTTP API may publish and read.
func DefaultNamespace(name string) Namespace {
	return Namespace{
		Name:    name,
		Mode:    push.Stream,
		History: History{Size: 100, Age: Duration(5 * time.Minute)},

		Partitions: 1,
		Delta:      []push.Delta{},
		Allow: Allow{
			Subscribe: []Caller{CallerUser},
			Publish:   []Caller{CallerAPI},
			History:   []Caller{CallerUser, CallerAPI},
			Presence:  []Caller{CallerUser, CallerAPI},
		},
	}
}

// setDefaults initialises an entry of a list before decoding. Keys that the entry does not contain keep these values.
func (n *Namespace) setDefaults() { *n = DefaultNamespace("") }
