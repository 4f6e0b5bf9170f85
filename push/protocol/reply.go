package protocol

import (
	"fmt"

	"github.com/sluice-push/sluice/push"
)

// Reply is a message of a server: the result or error of a command, or a push or a ping. If Error is not nil, there is no result. Otherwise Kind
// says which field is used; the others are zero. The results of unsubscribe, publish and ping are empty and have no field. Slices of bytes in a
// decoded reply share the memory of the line.
type Reply struct {
	ID    uint32 // of the command; 0 in a push or ping
	Error *push.Error
	Kind  Kind

	Connect       ConnectResult
	Subscribe     SubscribeResult
	Presence      PresenceResult
	PresenceStats PresenceStatsResult
	History       HistoryResult
	RPC           RPCResult
	Refresh       RefreshResult
	SubRefresh    SubRefreshResult
	Push          Push
}

// IsPing reports whether the reply is the server's ping. The client answers it with a pong if ConnectResult.Pong was set.
func (r *Reply) IsPing() bool { return r.ID == 0 && r.Kind == KindNone && r.Error == nil }

// ConnectResult confirms that a client's session is open.
type ConnectResult struct {
	Client  string // identity of the connection
	Version string // of the server
	Expires bool   // the connection ends in TTL unless it is refreshed
	TTL     uint32 // seconds; counts if Expires is set
	Data    []byte // one JSON value for the application, or nil
	// Subs are the server-side subscriptions, by channel.
	Subs    map[string]SubscribeResult
	Ping    uint32 // seconds between the server's pings; 0 if there are none
	Pong    bool   // the client has to answer the pings
	Session string // secret that sends commands to this session over another connection
	Node    string // ID of the node with the session
}

// SubscribeResult confirms a subscription, with its position.
type SubscribeResult struct {
	Expires bool   // the subscription ends in TTL unless it is refreshed
	TTL     uint32 // seconds; counts if Expires is set

	Recoverable bool // the client may resume from its position
	Positioned  bool // Position is valid
	// Position is the client's position before Publications, each of which then advances it. In a map subscription it is the position after
	// them.
	Position push.Position

	WasRecovering bool // the client has asked to resume
	Recovered     bool // and has missed nothing: Publications are complete
	Publications  []push.Publication

	Phase  uint32             // of a map subscription: PhaseLive if the client is subscribed, otherwise the kind of this page
	State  []push.Publication // rows of a map subscription
	Cursor string             // where the next page of rows begins; empty if there is none

	Data  []byte // one JSON value for the application, or nil
	Delta bool   // publications may be sent as deltas, in the requested encoding
	// Quoted encodes the data of Publications and State as strings, see PushOptions of package json. Decoding does not set it, and leaves data as it was sent.
	Quoted bool
	// ID is the number that names the subscription in pushes of publications instead of the channel, until it ends; 0 if pushes name the
	// channel.
	ID uint64
}

// PresenceResult lists the clients subscribed to a channel.
type PresenceResult struct {
	Clients []push.ClientInfo // their Client fields differ from each other; decoded in order of Client
}

// PresenceStatsResult counts the clients subscribed to a channel.
type PresenceStatsResult struct {
	Clients uint32 // connections
	Users   uint32 // different users among them
}

// HistoryResult is a part of a channel's stored publications, and the position of its head.
type HistoryResult struct {
	Publications []push.Publication
	Position     push.Position
}

// RPCResult is the result of a call.
type RPCResult struct {
	Data []byte // one JSON value, or nil
}

// RefreshResult says how long a connection was prolonged.
type RefreshResult struct {
	Client  string // identity of the connection, may be empty
	Version string // of the server, may be empty
	Expires bool
	TTL     uint32 // seconds; counts if Expires is set
}

// SubRefreshResult says how long a subscription was prolonged.
type SubRefreshResult struct {
	Expires bool
	TTL     uint32 // seconds; counts if Expires is set
}

// PushKind is the kind of a [Push].
type PushKind uint8

// The kinds of pushes. Their order is no part of the protocol.
const (
	PushUnknown PushKind = iota // a decoded push of an unknown kind
	PushPublication
	PushJoin
	PushLeave
	PushUnsubscribe
	PushMessage
	PushSubscribe
	PushConnect
	PushDisconnect
	PushRefresh
)

// pushNames are the names of the members that hold the content of a push, by kind.
var pushNames = [...]string{
	PushUnknown: "unknown", PushPublication: "pub", PushJoin: "join", PushLeave: "leave", PushUnsubscribe: "unsubscribe",
	PushMessage: "message", PushSubscribe: "subscribe", PushConnect: "connect", PushDisconnect: "disconnect", PushRefresh: "refresh",
}

// String returns the name in the protocol, for instance pub.
func (k PushKind) String() string {
	if int(k) < len(pushNames) {
		return pushNames[k]
	}
	return fmt.Sprintf("push(%d)", uint8(k))
}

// Push is a message that a server sends on its own. Kind says which of the fields after it is used; the others are zero.
type Push struct {
	Channel string // empty if the push concerns the whole connection (message, connect, disconnect, refresh), or if ID is set
	ID      uint64 // the number of the subscription, see [SubscribeResult]; 0 if Channel names it
	Kind    PushKind

	Publication push.Publication
	Client      push.ClientInfo  // join, leave: the client that came or went
	Unsubscribe push.Unsubscribe // the server ended the subscription
	Message     []byte           // one JSON value: a message without a channel
	Subscribe   SubscribeResult  // the server began a subscription; without publications
	Connect     ConnectResult    // the session is open, on transports where no command asked for it
	Disconnect  push.Disconnect  // the server ends the connection
	Refresh     RefreshResult    // the connection was prolonged
}
