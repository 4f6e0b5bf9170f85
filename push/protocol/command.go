package protocol

import (
	"fmt"

	"github.com/sluice-push/sluice/push"
)

// Kind says which request a [Command] carries, or which result a [Reply].
type Kind uint8

// The kinds. Their order is no part of the protocol.
const (
	// KindNone: nothing but the object itself. A command of this kind is the client's pong, a reply the server's ping.
	KindNone Kind = iota
	// KindUnknown: an object without any request or result known here. A command of this kind is answered by
	// [push.ErrMethodNotFound].
	KindUnknown
	KindConnect
	KindSubscribe
	KindUnsubscribe
	KindPublish
	KindPresence
	KindPresenceStats
	KindHistory
	KindPing
	KindSend // a command only: it has no ID and no reply
	KindRPC
	KindRefresh
	KindSubRefresh
	KindPush // a reply only: it has no ID, see [Push]
)

// kindNames are the members of a command or a reply, by kind.
var kindNames = [...]string{
	KindNone: "none", KindUnknown: "unknown", KindConnect: "connect", KindSubscribe: "subscribe", KindUnsubscribe: "unsubscribe",
	KindPublish: "publish", KindPresence: "presence", KindPresenceStats: "presence_stats", KindHistory: "history",
	KindPing: "ping", KindSend: "send", KindRPC: "rpc", KindRefresh: "refresh", KindSubRefresh: "sub_refresh", KindPush: "push",
}

// String returns the name that the protocol uses, for instance sub_refresh; for KindNone and KindUnknown none and unknown.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Command is what a client sends: one request with the number by which its reply is recognised. Kind says which of the request
// fields counts; the others are zero. Slices of bytes in a decoded command are borrowed from the line it was decoded from.
type Command struct {
	ID   uint32 // chosen by the client; 0 when no reply is wanted (pong, send)
	Kind Kind

	Connect       ConnectRequest
	Subscribe     SubscribeRequest
	Unsubscribe   ChannelRequest
	Publish       PublishRequest
	Presence      ChannelRequest
	PresenceStats ChannelRequest
	History       HistoryRequest
	Send          SendRequest
	RPC           RPCRequest
	Refresh       RefreshRequest
	SubRefresh    SubRefreshRequest
}

// IsPong reports whether the command is a client's answer to the server's ping.
func (c *Command) IsPong() bool { return c.ID == 0 && c.Kind == KindNone }

// ConnectRequest opens a client's session; it is the first command of a connection.
type ConnectRequest struct {
	Token   string // a JWT, empty for anonymous clients and where something else authenticates
	Data    []byte // one JSON value of the application, or nil
	Name    string // which SDK
	Version string // of the application
	Headers map[string]string
	// Subs are the server-side subscriptions which the client wants to resume, by channel; decoded ones have it as Channel too.
	Subs map[string]SubscribeRequest
	Flag uint64 // bits by which the client announces what it can do; at most [push.MaxOffset]
}

// Bits of [SubscribeRequest.Flag].
const (
	// SubscribeFlagCompaction: the client accepts pushes that name the subscription by a number, which the answer tells
	// ([SubscribeResult.ID]), instead of the channel. Pushes that end a subscription have its name in any case.
	SubscribeFlagCompaction = 1 << 0
	// SubscribeFlagRejectUnrecovered: the client wants [push.ErrUnrecoverablePosition] rather than a fresh start.
	SubscribeFlagRejectUnrecovered = 1 << 1
)

// SubscribeRequest asks for a channel's publications, from now on or from a position on.
type SubscribeRequest struct {
	Channel string
	Token   string // authorises this one subscription; empty where the namespace does
	Data    []byte // one JSON value of the application, or nil

	Recover bool // resume from Position
	// Position is the last one that the client has seen. It counts if Recover is set, and in map subscriptions.
	Position push.Position

	Positioned  bool // the client wants to know its position
	Recoverable bool // the client wants to be able to resume
	JoinLeave   bool // the client wants join and leave pushes

	Delta  string // the delta form the client can apply, for instance "fossil"; empty for none
	Filter []byte // a filter on tags, as JSON (member tf), or nil
	Flag   uint64 // see SubscribeFlagCompaction; at most [push.MaxOffset]
	// Type is SubscriptionPlain, SubscriptionMap, or one of the other kinds that SDKs have for special channels.
	Type uint32

	// What follows belongs to map subscriptions.

	Phase  uint32 // PhaseState or PhaseStream
	Limit  int32  // at most so many publications in the answer; 0: as many as the server likes
	Cursor string // where in the state the answer before ended ([SubscribeResult.Cursor]); empty: at the beginning
}

// Kinds of subscriptions, as [SubscribeRequest.Type] and [PublishRequest.Type] name them.
const (
	SubscriptionPlain = 0
	// SubscriptionMap: the client keeps the rows of a table by their keys. It is sent the rows in pages, what changed meanwhile, and then
	// every change.
	SubscriptionMap = 1
)

// Phases of a map subscription, as [SubscribeRequest.Phase] and [SubscribeResult.Phase] name them (MapPhase of centrifuge-js 5.8).
const (
	PhaseLive   = 0 // an answer only: the client is subscribed
	PhaseStream = 1 // what has changed since a position
	PhaseState  = 2 // the rows
)

// ChannelRequest is a request that says nothing but a channel: unsubscribe, presence and presence_stats.
type ChannelRequest struct {
	Channel string
}

// PublishRequest adds a publication to a channel.
type PublishRequest struct {
	Channel string
	Data    []byte // one JSON value; may be absent (nil) in a removal
	Key     string // the row in a table channel
	Tags    map[string]string
	Removed bool   // remove the row of Key
	Type    uint32 // SubscriptionPlain, or SubscriptionMap when an SDK addresses a channel as a map
}

// HistoryRequest asks for publications that a channel keeps, and its position.
type HistoryRequest struct {
	Channel string
	Limit   int32 // at most so many publications; 0 asks for the position only, −1 for all there are
	// HasSince says that only publications behind Since are wanted, or with Reverse only those before it.
	HasSince bool
	Since    push.Position
	Reverse  bool // newest first
}

// SendRequest is a message to the server that has no reply.
type SendRequest struct {
	Data []byte // one JSON value, or nil
}

// RPCRequest is a call of the application's own.
type RPCRequest struct {
	Method string
	Data   []byte // one JSON value, or nil
}

// RefreshRequest prolongs a connection that expires.
type RefreshRequest struct {
	Token string
}

// SubRefreshRequest prolongs a subscription that expires.
type SubRefreshRequest struct {
	Channel string
	Token   string
}
