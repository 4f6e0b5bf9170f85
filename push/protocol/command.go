package protocol

import (
	"fmt"

	"github.com/sluice-push/sluice/push"
)

// Kind is the kind of request in a [Command], or of result in a [Reply].
type Kind uint8

// The kinds. Their order is no part of the protocol.
const (
	// KindNone means that the object is empty apart from its ID. A command of this kind without an ID is the client's pong, and such a reply the
	// server's ping.
	KindNone Kind = iota
	// KindUnknown means that the object has no request or result known here. The server answers a command of this kind with
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

// kindNames are the names of the members that hold the request or result, by kind.
var kindNames = [...]string{
	KindNone: "none", KindUnknown: "unknown", KindConnect: "connect", KindSubscribe: "subscribe", KindUnsubscribe: "unsubscribe",
	KindPublish: "publish", KindPresence: "presence", KindPresenceStats: "presence_stats", KindHistory: "history",
	KindPing: "ping", KindSend: "send", KindRPC: "rpc", KindRefresh: "refresh", KindSubRefresh: "sub_refresh", KindPush: "push",
}

// String returns the name in the protocol, for instance sub_refresh. For KindNone and KindUnknown it returns none and unknown.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Command is a message of a client: one request, with the number that its reply repeats. Kind says which of the request fields is used; the
// others are zero. Slices of bytes in a decoded command share the memory of the line.
type Command struct {
	ID   uint32 // chosen by the client; 0 if no reply is wanted (pong, send)
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

// Batch is commands for a session whose connection carries only what the server sends. They come beside it, to any node.
type Batch struct {
	Session  string // the secret of the session: [ConnectResult].Session
	Node     string // with the session: [ConnectResult].Node
	Commands []byte // a frame, in the form of the session
}

// ConnectRequest opens a client's session. It is the first command of a connection.
type ConnectRequest struct {
	Token   string // a JWT; empty for anonymous clients, or if the client is authenticated otherwise
	Data    []byte // one JSON value of the application, or nil
	Name    string // of the SDK
	Version string // of the application
	Headers map[string]string
	// Subs are the server-side subscriptions that the client wants to resume, by channel. In decoded ones Channel is set too.
	Subs map[string]SubscribeRequest
	Flag uint64 // bits for the client's abilities; at most [push.MaxOffset]
}

// Bits of [SubscribeRequest.Flag].
const (
	// SubscribeFlagCompaction means that the client accepts pushes that name the subscription by a number instead of the channel. The answer
	// contains the number ([SubscribeResult.ID]). Pushes that end a subscription always name the channel.
	SubscribeFlagCompaction = 1 << 0
	// SubscribeFlagRejectUnrecovered means that the client prefers [push.ErrUnrecoverablePosition] to a fresh start.
	SubscribeFlagRejectUnrecovered = 1 << 1
	// SubscribeFlagNumbers, an addition of this server, says that a client of the Protobuf form means SubscribeFlagCompaction. centrifuge-js 5.8
	// offers compaction in both forms but, where long.js is installed, does not find a subscription by the number that it decodes (_getSub).
	SubscribeFlagNumbers = 1 << 16
)

// SubscribeRequest requests a channel's publications, from now on or from a position on.
type SubscribeRequest struct {
	Channel string
	Token   string // authorises this subscription; empty if the namespace allows it
	Data    []byte // one JSON value of the application, or nil

	Recover bool // resume from Position
	// Position is the last one that the client has seen. It is used if Recover is set, and in map subscriptions.
	Position push.Position

	Positioned  bool // the client wants to know its position
	Recoverable bool // the client wants to be able to resume
	JoinLeave   bool // the client wants join and leave pushes

	Delta  string // the delta encoding that the client can apply, for instance "fossil"; empty for none
	Filter []byte // a filter on tags, as JSON (member tf), or nil
	Flag   uint64 // see SubscribeFlagCompaction; at most [push.MaxOffset]
	// Type is SubscriptionPlain, SubscriptionMap, or another kind that SDKs have for special channels.
	Type uint32

	// The following fields are for map subscriptions.

	Phase  uint32 // PhaseState or PhaseStream
	Limit  int32  // the largest number of publications in the answer; 0: the server chooses
	Cursor string // where the previous page of the state ended ([SubscribeResult.Cursor]); empty: at the beginning
}

// The kinds of subscriptions, for [SubscribeRequest.Type] and [PublishRequest.Type].
const (
	SubscriptionPlain = 0
	// SubscriptionMap means that the client keeps the rows of a table by their keys. It gets the rows in pages, the changes made meanwhile, and
	// then every change.
	SubscriptionMap = 1
)

// The phases of a map subscription, for [SubscribeRequest.Phase] and [SubscribeResult.Phase] (MapPhase of centrifuge-js 5.8).
const (
	PhaseLive   = 0 // in answers only: the client is subscribed
	PhaseStream = 1 // the changes since a position
	PhaseState  = 2 // the rows
)

// ChannelRequest is a request with only a channel: unsubscribe, presence and presence_stats.
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
	Type    uint32 // SubscriptionPlain, or SubscriptionMap if the SDK uses the channel as a map
}

// HistoryRequest requests stored publications of a channel, and its position.
type HistoryRequest struct {
	Channel string
	Limit   int32 // the largest number of publications; 0 requests the position only, −1 all
	// HasSince restricts the answer to publications after Since, or with Reverse before it.
	HasSince bool
	Since    push.Position
	Reverse  bool // newest first
}

// SendRequest is a message to the server that has no reply.
type SendRequest struct {
	Data []byte // one JSON value, or nil
}

// RPCRequest is a call of a method of the application.
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
