package protobuf_test

import (
	"strings"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
)

// commands are one of each kind and more, with every field set somewhere.
var commands = []protocol.Command{
	{},
	{ID: 7},
	{ID: 7, Kind: protocol.KindPing},
	{ID: 1, Kind: protocol.KindConnect},
	{ID: 1, Kind: protocol.KindConnect, Connect: protocol.ConnectRequest{
		Token: "a.b.c", Data: []byte(`{"x":[1,2]}`), Name: "js", Version: "1.2", Headers: map[string]string{"X-A": "1", "X-B": ""},
		Subs: map[string]protocol.SubscribeRequest{
			"a": {Channel: "a", Recover: true, Position: push.Position{Epoch: "e", Offset: push.MaxOffset}},
			"b": {Channel: "b"},
		},
		Flag: 3,
	}},
	{ID: 2, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{
		Channel: "quotes:all", Token: "t", Recover: true, Position: push.Position{Epoch: "xyz", Offset: 12}, Data: []byte(`"d"`),
		Positioned: true, Recoverable: true, JoinLeave: true, Delta: "fossil", Flag: protocol.SubscribeFlagCompaction, Type: 1,
		Filter: []byte(`{"op":"and","nodes":[{"key":"a","cmp":"eq","val":"<b>"},{"key":"c","cmp":"in","vals":["d","","\"é"]}]}`),
	}},
	{ID: 2, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{
		Channel: "quotes:all", Position: push.Position{Epoch: "xyz", Offset: 12}, Type: protocol.SubscriptionMap,
		Phase: protocol.PhaseState, Limit: -5, Cursor: "c", Filter: []byte(`{}`),
	}},
	{ID: 3, Kind: protocol.KindUnsubscribe, Unsubscribe: protocol.ChannelRequest{Channel: "a"}},
	{ID: 4, Kind: protocol.KindPublish, Publish: protocol.PublishRequest{
		Channel: "a", Data: []byte(`{"input":"hé"}`), Key: "k", Tags: map[string]string{"b": "2", "a": "1", "": ""}, Type: 1,
	}},
	{ID: 4, Kind: protocol.KindPublish, Publish: protocol.PublishRequest{Channel: "a", Key: "k", Removed: true}},
	{ID: 4, Kind: protocol.KindPublish, Publish: protocol.PublishRequest{Channel: "a", Data: []byte(`null`)}},
	{ID: 5, Kind: protocol.KindPresence, Presence: protocol.ChannelRequest{Channel: "a"}},
	{ID: 6, Kind: protocol.KindPresenceStats, PresenceStats: protocol.ChannelRequest{Channel: "a"}},
	{ID: 7, Kind: protocol.KindHistory, History: protocol.HistoryRequest{
		Channel: "a", Limit: -1, HasSince: true, Since: push.Position{Epoch: "e", Offset: 3}, Reverse: true,
	}},
	{ID: 7, Kind: protocol.KindHistory, History: protocol.HistoryRequest{Channel: "a", Limit: 10, HasSince: true}},
	{Kind: protocol.KindSend, Send: protocol.SendRequest{Data: []byte(`[1,"two"]`)}},
	{ID: 1<<32 - 1, Kind: protocol.KindRPC, RPC: protocol.RPCRequest{Method: "m", Data: []byte(`1.5e3`)}},
	{ID: 9, Kind: protocol.KindRefresh, Refresh: protocol.RefreshRequest{Token: "t"}},
	{ID: 10, Kind: protocol.KindSubRefresh, SubRefresh: protocol.SubRefreshRequest{Channel: "a", Token: strings.Repeat("t", 200)}},
}

var (
	someone  = push.ClientInfo{User: "42", Client: "c1", ConnInfo: []byte(`{"n":1}`), ChanInfo: []byte(`[]`)}
	row      = push.Publication{Offset: 9, Key: "ABC", Data: []byte(`{"bid":1}`), Tags: map[string]string{"venue": "x", "a": ""}, Info: &someone}
	removal  = push.Publication{Offset: 10, Key: "ABC", Op: push.Remove}
	clearing = push.Publication{Offset: 11, Op: push.Clear}
	large    = push.Publication{Offset: push.MaxOffset, Data: []byte(`"` + strings.Repeat("x", 300) + `"`)}
	delta    = push.Publication{Offset: 12, Data: []byte("8\nE@0,2:1}3x;\xff"), Delta: true}

	subscribed = protocol.SubscribeResult{
		Expires: true, TTL: 60, Recoverable: true, Position: push.Position{Epoch: "xyz", Offset: 14},
		Publications: []push.Publication{row, removal, clearing, large, {}}, Recovered: true, Positioned: true, Data: []byte(`{}`),
		WasRecovering: true, Delta: true, ID: 7, Phase: protocol.PhaseState, State: []push.Publication{row}, Cursor: "next",
	}
	connected = protocol.ConnectResult{
		Client: "ID", Version: "1.0", Expires: true, TTL: 60, Data: []byte(`{"a":1}`), Ping: 25, Pong: true, Session: "s", Node: "n",
		Subs: map[string]protocol.SubscribeResult{"a": subscribed, "": {}},
	}
)

// replies are one of each kind and more, with every field set somewhere.
var replies = []protocol.Reply{
	{},
	{ID: 1},
	{ID: 2, Error: &push.Error{Code: 109, Message: "token expired", Temporary: true}},
	{ID: 2, Error: &push.Error{}},
	{ID: 1, Kind: protocol.KindConnect},
	{ID: 1, Kind: protocol.KindConnect, Connect: connected},
	{ID: 2, Kind: protocol.KindSubscribe},
	{ID: 2, Kind: protocol.KindSubscribe, Subscribe: subscribed},
	{ID: 3, Kind: protocol.KindUnsubscribe},
	{ID: 4, Kind: protocol.KindPublish},
	{ID: 5, Kind: protocol.KindPresence, Presence: protocol.PresenceResult{Clients: []push.ClientInfo{{}, someone, {Client: "c2"}}}},
	{ID: 6, Kind: protocol.KindPresenceStats, PresenceStats: protocol.PresenceStatsResult{Clients: 2, Users: 1}},
	{ID: 7, Kind: protocol.KindHistory, History: protocol.HistoryResult{
		Publications: []push.Publication{row}, Position: push.Position{Epoch: "e", Offset: 300},
	}},
	{ID: 8, Kind: protocol.KindPing},
	{ID: 9, Kind: protocol.KindRPC, RPC: protocol.RPCResult{Data: []byte(`3`)}},
	{ID: 10, Kind: protocol.KindRefresh, Refresh: protocol.RefreshResult{Client: "ID", Version: "1.0", Expires: true, TTL: 1<<32 - 1}},
	{ID: 11, Kind: protocol.KindSubRefresh, SubRefresh: protocol.SubRefreshResult{Expires: true, TTL: 60}},
	pushReply(protocol.Push{Channel: "a"}),
	pushReply(protocol.Push{Channel: "a", Kind: protocol.PushPublication, Publication: row}),
	pushReply(protocol.Push{ID: 7, Kind: protocol.PushPublication, Publication: delta}),
	pushReply(protocol.Push{Channel: "a", Kind: protocol.PushPublication, Publication: removal}),
	pushReply(protocol.Push{Channel: "a", Kind: protocol.PushPublication, Publication: clearing}),
	pushReply(protocol.Push{Channel: "a", Kind: protocol.PushPublication, Publication: large}),
	pushReply(protocol.Push{Channel: "a", Kind: protocol.PushJoin, Client: someone}),
	pushReply(protocol.Push{Channel: "a", Kind: protocol.PushLeave, Client: someone}),
	pushReply(protocol.Push{Channel: "a", Kind: protocol.PushUnsubscribe, Unsubscribe: push.Unsubscribe{Code: 2500, Reason: "why"}}),
	pushReply(protocol.Push{Kind: protocol.PushMessage, Message: []byte(`{"hi":1}`)}),
	pushReply(protocol.Push{Channel: "a", Kind: protocol.PushSubscribe, Subscribe: protocol.SubscribeResult{
		Recoverable: true, Positioned: true, Position: push.Position{Epoch: "e", Offset: 1}, Data: []byte(`1`),
	}}),
	pushReply(protocol.Push{Kind: protocol.PushConnect, Connect: connected}),
	pushReply(protocol.Push{Kind: protocol.PushDisconnect, Disconnect: push.DisconnectShutdown}),
	pushReply(protocol.Push{Kind: protocol.PushDisconnect, Disconnect: push.Disconnect{Code: 3500, Reason: "final"}}),
	pushReply(protocol.Push{Kind: protocol.PushRefresh, Refresh: protocol.RefreshResult{Expires: true, TTL: 60}}),
}

func pushReply(p protocol.Push) protocol.Reply {
	return protocol.Reply{Kind: protocol.KindPush, Push: p}
}
