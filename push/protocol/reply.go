package protocol

import (
	"fmt"

	"github.com/sluice-push/sluice/push"
)

// Reply is what a server sends: the result of a command or the error that it met, or of its own accord a push or a ping. When
// Error is not nil there is no result, otherwise Kind says which field counts; the others are zero. The results of unsubscribe,
// publish and ping are empty and have no field. Slices of bytes in a decoded reply are borrowed from the line it was decoded
// from.
type Reply struct {
	ID    uint32 // of the command; 0 in a push and in a ping
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

// IsPing reports whether the reply is the server's ping, to which the client answers with a pong if it was asked to.
func (r *Reply) IsPing() bool { return r.ID == 0 && r.Kind == KindNone && r.Error == nil }

// ConnectResult tells a client that its session is open.
type ConnectResult struct {
	Client  string // identity of the connection
	Version string // of the server
	Expires bool   // the connection ends in TTL unless it is refreshed
	TTL     uint32 // seconds; counts if Expires is set
	Data    []byte // one JSON value for the application, or nil
	// Subs are the server-side subscriptions, by channel.
	Subs    map[string]SubscribeResult
	Ping    uint32 // seconds between the server's pings, 0 when there are none
	Pong    bool   // the client has to answer them
	Session string // secret by which commands reach this session over another connection
	Node    string // where the session lives
}

// SubscribeResult tells a client that it is subscribed, and where it stands.
type SubscribeResult struct {
	Expires bool   // the subscription ends in TTL unless it is refreshed
	TTL     uint32 // seconds; counts if Expires is set

	Recoverable bool // the client may resume from its position
	Positioned  bool // the client is told its position
	// Position is what the client has before it applies Publications, which move it one by one; in a map subscription once it applied them.
	Position push.Position

	WasRecovering bool // the client had asked to resume
	Recovered     bool // and has missed nothing: Publications are all there were
	Publications  []push.Publication

	Phase  uint32             // of a map subscription: PhaseLive when the client is subscribed, otherwise what this is a page of
	State  []push.Publication // rows of a map subscription
	Cursor string             // where the next page of rows begins; empty when there is none

	Data  []byte // one JSON value for the application, or nil
	Delta bool   // publications may come as deltas, in the form asked for
	// Quoted says that the data of Publications and State goes as strings, see [PushOptions]. Decoded, it is not set, and data is what came.
	Quoted bool
	// ID is a number by which pushes of publications name the subscription instead of the channel, until it ends; 0 when they do not.
	ID uint64
}

// PresenceResult lists who is subscribed to a channel.
type PresenceResult struct {
	Clients []push.ClientInfo // their Client fields differ from each other; decoded in order of Client
}

// PresenceStatsResult counts who is subscribed to a channel.
type PresenceStatsResult struct {
	Clients uint32 // connections
	Users   uint32 // different users among them
}

// HistoryResult is a part of what a channel keeps, and the position of its head.
type HistoryResult struct {
	Publications []push.Publication
	Position     push.Position
}

// RPCResult is the answer to a call.
type RPCResult struct {
	Data []byte // one JSON value, or nil
}

// RefreshResult tells until when a connection was prolonged.
type RefreshResult struct {
	Client  string // identity of the connection, may be empty
	Version string // of the server, may be empty
	Expires bool
	TTL     uint32 // seconds; counts if Expires is set
}

// SubRefreshResult tells until when a subscription was prolonged.
type SubRefreshResult struct {
	Expires bool
	TTL     uint32 // seconds; counts if Expires is set
}

// PushKind says what a [Push] tells.
type PushKind uint8

// The kinds of pushes. Their order is no part of the protocol.
const (
	PushUnknown PushKind = iota // decoded only: a push of a kind not known here
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

// pushNames are the members of a push object, by kind.
var pushNames = [...]string{
	PushUnknown: "unknown", PushPublication: "pub", PushJoin: "join", PushLeave: "leave", PushUnsubscribe: "unsubscribe",
	PushMessage: "message", PushSubscribe: "subscribe", PushConnect: "connect", PushDisconnect: "disconnect", PushRefresh: "refresh",
}

// String returns the name that the protocol uses, for instance pub.
func (k PushKind) String() string {
	if int(k) < len(pushNames) {
		return pushNames[k]
	}
	return fmt.Sprintf("push(%d)", uint8(k))
}

// Push is what a server tells of its own accord. Kind says which of the fields after it counts; the others are zero.
type Push struct {
	Channel string // empty where the push concerns the whole connection (message, connect, disconnect, refresh), and with an ID
	ID      uint64 // the number of the subscription that it is for, see [SubscribeResult]; 0 when it is named by its channel
	Kind    PushKind

	Publication push.Publication
	Client      push.ClientInfo  // join, leave: who
	Unsubscribe push.Unsubscribe // the server ended the subscription
	Message     []byte           // one JSON value: a message outside of channels
	Subscribe   SubscribeResult  // the server began a subscription; has no publications
	Connect     ConnectResult    // the session is open, on transports where no command asked for it
	Disconnect  push.Disconnect  // the server ends the connection
	Refresh     RefreshResult    // the connection was prolonged
}
