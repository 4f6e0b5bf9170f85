// Package config is the configuration of a node: what an operator may set, where the settings come from and what is wrong with
// them.
//
// Settings are merged from four sources, a later one wins: the defaults ([Default]), a YAML file, environment variables and
// command line flags. [Load] does it all. Every key outside lists has a variable: SLUICE_ and the path of the key in upper
// case, so limits.message_bytes is SLUICE_LIMITS_MESSAGE_BYTES; a list as a whole is given as YAML text
// (SLUICE_NAMESPACES='[{name: quotes, mode: table}]') and replaces the list of the file.
//
// Nothing is ignored and nothing is guessed: unknown keys and variables, wrong types, duplicate keys and values out of range
// are refused, all of them in one [*Error], each with the file, line and column, the variable or the flag it came from. YAML is
// used in its plain form: anchors, aliases, merge keys, tags and several documents in one file are refused too.
//
// The configuration holds no secrets: API keys are given by their hash ([HashKey]), and even the hash is not printed.
package config

import (
	"time"

	"github.com/sluice-push/sluice/push"
)

// Config is the configuration of a node. It is plain data: make one with [Load], [Parse] or [Default] and do not change it once
// it is in use.
type Config struct {
	// Listen is the public address, "host:port": client transports and the HTTP API. An empty host means all addresses, port 0
	// one chosen by the kernel.
	Listen string `yaml:"listen"`
	// Internal is the address for operators: health, metrics, profiles. Empty: none.
	Internal string `yaml:"internal"`
	// Data is the folder in which the node keeps what has to outlive it: with an embedded broker, the publications. It is made if it
	// does not exist; nodes do not share one.
	Data string `yaml:"data"`
	// Role is what the node does; this release has only [RoleAll].
	Role string `yaml:"role"`
	// Broker is the message queue behind the node.
	Broker Broker `yaml:"broker"`
	// Auth is how clients are authenticated.
	Auth Auth `yaml:"auth"`
	// API is who may call the HTTP API.
	API API `yaml:"api"`
	// Origins are the web origins whose pages may connect, as in "https://example.org"; "*" stands for all. Pages of the node's own
	// host always may, and so may clients that are no browsers.
	Origins []string `yaml:"origins"`
	// Limits bound what one client, one address and the node as a whole may use.
	Limits Limits `yaml:"limits"`
	// Linger is how long a channel is kept in memory after its last subscriber left: 0 to 24 hours.
	Linger Duration `yaml:"linger"`
	// Ping is how the server finds out that a client is gone.
	Ping Ping `yaml:"ping"`
	// Namespaces say how channels behave, by the part of their name before the colon. A channel whose namespace is not listed
	// does not exist.
	Namespaces []Namespace `yaml:"namespaces"`
}

// RoleAll is the role of a node that is a hub and serves clients.
const RoleAll = "all"

// The kinds of brokers.
const (
	BrokerMemory = "memory" // in the process; keeps nothing beyond it
	BrokerNATS   = "nats"   // NATS JetStream, embedded in the process or external
)

// Broker names the message queue.
type Broker struct {
	// Kind of the broker: [BrokerNATS] or [BrokerMemory].
	Kind string `yaml:"kind"`
	// URL of an external NATS server, or of several with commas between; empty: one is embedded.
	URL string `yaml:"url"`
	// Credentials is a file with a JWT and a key for the external server, or empty.
	Credentials string `yaml:"credentials"`
	// Replicas is how many servers of an external cluster keep what is durable: 1, 3 or 5. It counts when a namespace is first used.
	Replicas int `yaml:"replicas"`
	// Listen is a loopback address on which NATS clients reach the embedded server, or empty.
	Listen string `yaml:"listen"`
	// Sync is how often the embedded server makes the disk keep what it acknowledged.
	Sync Sync `yaml:"sync"`
	// MaxStore is how much of the disk the embedded server may use; 0 is what is free when it starts, less a reserve.
	MaxStore Bytes `yaml:"max_store"`
}

// Auth is how clients are authenticated.
type Auth struct {
	// Anonymous admits clients that do not say who they are. What they may do is decided by the namespaces: see [Allow].
	Anonymous bool `yaml:"anonymous"`
}

// API is who may call the HTTP API.
type API struct {
	// Keys are the accepted keys. With none the API refuses every call, unless the process was started without
	// authentication on purpose.
	Keys []APIKey `yaml:"keys"`
}

// APIKey is one caller of the HTTP API.
type APIKey struct {
	// Name says whose key it is, in logs: unique, not empty, otherwise like the name of a namespace.
	Name string `yaml:"name"`
	// Hash recognises the key; see [HashKey].
	Hash Hash `yaml:"hash"`
	// Scopes are what the key is good for; at least one.
	Scopes []Scope `yaml:"scopes"`
}

// Scope is a part of the HTTP API.
type Scope string

// The scopes.
const (
	ScopePublish Scope = "publish" // publish, broadcast
	ScopeRead    Scope = "read"    // history, presence, presence_stats, channels, info
	ScopeControl Scope = "control" // disconnect, unsubscribe, pace
)

// Limits bound what clients may use.
type Limits struct {
	// MessageBytes is the longest command accepted from a client, or data from a caller of the API: 128 B to 64 MiB, with the broker nats to
	// 31 MiB. See also FrameBytes.
	MessageBytes Bytes `yaml:"message_bytes"`
	// SendBuffer is how much may wait to be written to one client: 4 KiB to 64 MiB.
	SendBuffer Bytes `yaml:"send_buffer"`
	// WriteTimeout is how long a client may take nothing of what is to be written to it before it is cut: 1 second to 1 hour.
	WriteTimeout Duration `yaml:"write_timeout"`
	// Backlog is how much may wait to be written to all clients together, at least 1 MiB: when more does, those for whom most waits are cut; 0 is
	// an eighth of the memory that the process may use.
	Backlog Bytes `yaml:"backlog"`
	// Sessions is the most clients connected at a time; 0 is as many as the descriptors and half of the memory that the process may use are
	// enough for.
	Sessions int `yaml:"sessions"`
	// SessionsPerAddress is the most clients connected from one address; 0 is no limit.
	SessionsPerAddress int `yaml:"sessions_per_address"`
	// CommandsPerSession is how many commands a second of one client are carried out, and CommandsPerAddress how many of all clients from one
	// address; ten times as many at once after a time of rest. 0 is no limit.
	CommandsPerSession int `yaml:"commands_per_session"`
	CommandsPerAddress int `yaml:"commands_per_address"`
	// SubscriptionsPerSession is the most channels one client may be subscribed to; 0 is no limit.
	SubscriptionsPerSession int `yaml:"subscriptions_per_session"`
	// Bandwidth is how many bytes of publications a second one client is sent, at most 4 GiB; 0 is no limit.
	Bandwidth Bytes `yaml:"bandwidth"`
}

// Ping is how the server finds out that a client is gone: it pings, the client has to answer.
type Ping struct {
	// Interval between two pings to a client, in whole seconds since clients are told it in seconds, at most an hour;
	// 0 sends none.
	Interval Duration `yaml:"interval"`
	// Timeout is how long the client may take to answer: more than 0 and less than the interval.
	Timeout Duration `yaml:"timeout"`
}

// Namespace says how the channels named "Name:…" behave. The one with the empty name holds the channels without a colon.
type Namespace struct {
	// Name is the part before the colon: letters, digits, '.', '-' and '_', at most [MaxNamespaceLen] bytes. Unique.
	Name string `yaml:"name"`
	// Mode says what a channel keeps: stream, value or table.
	Mode push.Mode `yaml:"mode"`
	// History bounds what a channel keeps.
	History History `yaml:"history"`
	// Durable says whether publications survive the process. The memory broker cannot do that.
	Durable Durability `yaml:"durable"`
	// Interval is the shortest time between two services of a subscription that does not ask for one; 0 is none. At most a day.
	Interval Duration `yaml:"interval"`
	// MinInterval is the shortest that a subscription may ask for, at most a day.
	MinInterval Duration `yaml:"min_interval"`
	// Priority says whose turn it is where a client cannot be sent everything at once, from 0, the lowest, to 9.
	Priority int `yaml:"priority"`
	// Slow says what becomes of subscriptions whose clients are too slow to be told everything; the mode has to have that policy.
	Slow push.Slow `yaml:"slow"`
	// Delta lists the forms in which clients may take publications as differences; empty: none.
	Delta []push.Delta `yaml:"delta"`
	// Allow says who may do what.
	Allow Allow `yaml:"allow"`
}

// MaxNamespaceLen is the longest namespace name, in bytes. It leaves room for the rest of a channel's name.
const MaxNamespaceLen = 64

// History bounds what a channel keeps, as [push.History] says: in a stream all publications, otherwise only the removals that are
// remembered, which Bytes does not touch.
type History struct {
	// Size in publications or removals; 0 is no such bound.
	Size int `yaml:"size"`
	// Age of a publication or removal; 0 is no such bound.
	Age Duration `yaml:"age"`
	// Bytes of all publications together; 0 is no such bound.
	Bytes Bytes `yaml:"bytes"`
}

// Push returns the bounds in the words of package push.
func (h History) Push() push.History {
	return push.History{Size: h.Size, Bytes: int64(h.Bytes), Age: time.Duration(h.Age)}
}

// Allow says who may do what in a namespace. An empty list is nobody.
type Allow struct {
	// Subscribe to channels.
	Subscribe []Caller `yaml:"subscribe"`
	// Publish to channels.
	Publish []Caller `yaml:"publish"`
	// History of channels may be read.
	History []Caller `yaml:"history"`
	// Presence, who is subscribed, may be read.
	Presence []Caller `yaml:"presence"`
}

// Caller is a kind of caller. The kinds are disjoint: a list that admits users does not admit anonymous clients.
type Caller string

// The callers.
const (
	CallerAnonymous Caller = "anonymous" // a client that did not say who it is
	CallerUser      Caller = "user"      // a client with an identity
	CallerAPI       Caller = "api"       // a caller of the HTTP API whose key has the scope
)

// Default returns the configuration that holds when nothing is said. It is valid, and what [WriteDefault] writes loads to it.
func Default() *Config {
	return &Config{
		Listen:   ":8000",
		Internal: "127.0.0.1:9000",
		Data:     "./data",
		Role:     RoleAll,
		Broker:   Broker{Kind: BrokerNATS, Replicas: 1, Sync: Sync(2 * time.Minute)},
		Limits: Limits{
			MessageBytes:            64 << 10,
			SendBuffer:              64 << 10,
			WriteTimeout:            Duration(10 * time.Second),
			CommandsPerSession:      1000,
			CommandsPerAddress:      100_000,
			SubscriptionsPerSession: 128,
		},
		Linger:     Duration(30 * time.Second),
		Ping:       Ping{Interval: Duration(25 * time.Second), Timeout: Duration(8 * time.Second)},
		Namespaces: []Namespace{DefaultNamespace("")},
	}
}

// DefaultNamespace returns the namespace of that name with everything else as it is when nothing is said: stream mode, the last
// 100 publications of five minutes, durable where the broker can do that; users subscribe and read, the HTTP API publishes and reads.
func DefaultNamespace(name string) Namespace {
	return Namespace{
		Name:    name,
		Mode:    push.Stream,
		History: History{Size: 100, Age: Duration(5 * time.Minute)},
		Delta:   []push.Delta{},
		Allow: Allow{
			Subscribe: []Caller{CallerUser},
			Publish:   []Caller{CallerAPI},
			History:   []Caller{CallerUser, CallerAPI},
			Presence:  []Caller{CallerUser, CallerAPI},
		},
	}
}

// setDefaults prepares an entry of a list for decoding: what the entry does not mention stays as it is here.
func (n *Namespace) setDefaults() { *n = DefaultNamespace("") }
