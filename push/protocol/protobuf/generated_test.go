package protobuf_test

import (
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// The functions of this file return the generated message of a value.

func generatedCommand(t testing.TB, c *protocol.Command) *clientv1.Command {
	g := &clientv1.Command{Id: c.ID}
	switch c.Kind {
	case protocol.KindConnect:
		r := &c.Connect
		g.Connect = &clientv1.ConnectRequest{
			Token: r.Token, Data: r.Data, Name: r.Name, Version: r.Version, Headers: r.Headers, Flag: int64(r.Flag),
		}
		for channel, sub := range r.Subs {
			if g.Connect.Subs == nil {
				g.Connect.Subs = make(map[string]*clientv1.SubscribeRequest)
			}
			g.Connect.Subs[channel] = generatedSubscribe(t, &sub)
			g.Connect.Subs[channel].Channel = ""
		}
	case protocol.KindSubscribe:
		g.Subscribe = generatedSubscribe(t, &c.Subscribe)
	case protocol.KindUnsubscribe:
		g.Unsubscribe = &clientv1.UnsubscribeRequest{Channel: c.Unsubscribe.Channel}
	case protocol.KindPublish:
		r := &c.Publish
		g.Publish = &clientv1.PublishRequest{
			Channel: r.Channel, Data: r.Data, Type: int32(r.Type), Key: r.Key, Removed: r.Removed, Tags: r.Tags,
		}
	case protocol.KindPresence:
		g.Presence = &clientv1.PresenceRequest{Channel: c.Presence.Channel}
	case protocol.KindPresenceStats:
		g.PresenceStats = &clientv1.PresenceStatsRequest{Channel: c.PresenceStats.Channel}
	case protocol.KindHistory:
		r := &c.History
		g.History = &clientv1.HistoryRequest{Channel: r.Channel, Limit: r.Limit, Reverse: r.Reverse}
		if r.HasSince {
			g.History.Since = &clientv1.StreamPosition{Offset: r.Since.Offset, Epoch: r.Since.Epoch}
		}
	case protocol.KindPing:
		g.Ping = &clientv1.PingRequest{}
	case protocol.KindSend:
		g.Send = &clientv1.SendRequest{Data: c.Send.Data}
	case protocol.KindRPC:
		g.Rpc = &clientv1.RPCRequest{Data: c.RPC.Data, Method: c.RPC.Method}
	case protocol.KindRefresh:
		g.Refresh = &clientv1.RefreshRequest{Token: c.Refresh.Token}
	case protocol.KindSubRefresh:
		g.SubRefresh = &clientv1.SubRefreshRequest{Channel: c.SubRefresh.Channel, Token: c.SubRefresh.Token}
	case protocol.KindNone, protocol.KindUnknown, protocol.KindPush:
	}
	return g
}

func generatedSubscribe(t testing.TB, r *protocol.SubscribeRequest) *clientv1.SubscribeRequest {
	g := &clientv1.SubscribeRequest{
		Channel: r.Channel, Token: r.Token, Recover: r.Recover, Epoch: r.Position.Epoch, Offset: r.Position.Offset, Data: r.Data,
		Positioned: r.Positioned, Recoverable: r.Recoverable, JoinLeave: r.JoinLeave, Delta: r.Delta, Flag: int64(r.Flag),
		Type: int32(r.Type), Phase: int32(r.Phase), Cursor: r.Cursor, Limit: r.Limit,
	}
	if r.Filter != nil {
		g.Tf = &clientv1.FilterNode{}
		if err := protojson.Unmarshal(r.Filter, g.Tf); err != nil {
			t.Fatalf("filter %s: %v", r.Filter, err)
		}
	}
	return g
}

func generatedReply(r *protocol.Reply) *clientv1.Reply {
	g := &clientv1.Reply{Id: r.ID}
	if r.Error != nil {
		g.Error = &clientv1.Error{Code: r.Error.Code, Message: r.Error.Message, Temporary: r.Error.Temporary}
		return g
	}
	switch r.Kind {
	case protocol.KindConnect:
		c := &r.Connect
		g.Connect = &clientv1.ConnectResult{
			Client: c.Client, Version: c.Version, Expires: c.Expires, Ttl: c.TTL, Data: c.Data, Subs: generatedSubs(c.Subs),
			Ping: c.Ping, Pong: c.Pong, Session: c.Session, Node: c.Node,
		}
	case protocol.KindSubscribe:
		g.Subscribe = generatedSubscribeResult(&r.Subscribe)
	case protocol.KindUnsubscribe:
		g.Unsubscribe = &clientv1.UnsubscribeResult{}
	case protocol.KindPublish:
		g.Publish = &clientv1.PublishResult{}
	case protocol.KindPresence:
		g.Presence = &clientv1.PresenceResult{}
		for i := range r.Presence.Clients {
			if g.Presence.Presence == nil {
				g.Presence.Presence = make(map[string]*clientv1.ClientInfo)
			}
			g.Presence.Presence[r.Presence.Clients[i].Client] = generatedInfo(&r.Presence.Clients[i])
		}
	case protocol.KindPresenceStats:
		g.PresenceStats = &clientv1.PresenceStatsResult{NumClients: r.PresenceStats.Clients, NumUsers: r.PresenceStats.Users}
	case protocol.KindHistory:
		g.History = &clientv1.HistoryResult{
			Publications: generatedPublications(r.History.Publications),
			Epoch:        r.History.Position.Epoch, Offset: r.History.Position.Offset,
		}
	case protocol.KindPing:
		g.Ping = &clientv1.PingResult{}
	case protocol.KindRPC:
		g.Rpc = &clientv1.RPCResult{Data: r.RPC.Data}
	case protocol.KindRefresh:
		f := &r.Refresh
		g.Refresh = &clientv1.RefreshResult{Client: f.Client, Version: f.Version, Expires: f.Expires, Ttl: f.TTL}
	case protocol.KindSubRefresh:
		g.SubRefresh = &clientv1.SubRefreshResult{Expires: r.SubRefresh.Expires, Ttl: r.SubRefresh.TTL}
	case protocol.KindPush:
		g.Push = generatedPush(&r.Push)
	case protocol.KindNone, protocol.KindUnknown, protocol.KindSend:
	}
	return g
}

func generatedPush(p *protocol.Push) *clientv1.Push {
	g := &clientv1.Push{Id: int64(p.ID), Channel: p.Channel}
	switch p.Kind {
	case protocol.PushPublication:
		g.Pub = generatedPublication(&p.Publication)
	case protocol.PushJoin:
		g.Join = &clientv1.Join{Info: generatedInfo(&p.Client)}
	case protocol.PushLeave:
		g.Leave = &clientv1.Leave{Info: generatedInfo(&p.Client)}
	case protocol.PushUnsubscribe:
		g.Unsubscribe = &clientv1.Unsubscribe{Code: p.Unsubscribe.Code, Reason: p.Unsubscribe.Reason}
	case protocol.PushMessage:
		g.Message = &clientv1.Message{Data: p.Message}
	case protocol.PushSubscribe:
		s := &p.Subscribe
		g.Subscribe = &clientv1.Subscribe{
			Recoverable: s.Recoverable, Epoch: s.Position.Epoch, Offset: s.Position.Offset, Positioned: s.Positioned, Data: s.Data,
		}
	case protocol.PushConnect:
		c := &p.Connect
		g.Connect = &clientv1.Connect{
			Client: c.Client, Version: c.Version, Expires: c.Expires, Ttl: c.TTL, Data: c.Data, Subs: generatedSubs(c.Subs),
			Ping: c.Ping, Pong: c.Pong, Session: c.Session, Node: c.Node,
		}
	case protocol.PushDisconnect:
		d := &p.Disconnect
		g.Disconnect = &clientv1.Disconnect{Code: uint32(d.Code), Reason: d.Reason, Reconnect: d.Reconnect()}
	case protocol.PushRefresh:
		g.Refresh = &clientv1.Refresh{Expires: p.Refresh.Expires, Ttl: p.Refresh.TTL}
	case protocol.PushUnknown:
	}
	return g
}

func generatedSubs(subs map[string]protocol.SubscribeResult) map[string]*clientv1.SubscribeResult {
	g := make(map[string]*clientv1.SubscribeResult)
	for channel, sub := range subs {
		g[channel] = generatedSubscribeResult(&sub)
	}
	return g
}

func generatedSubscribeResult(r *protocol.SubscribeResult) *clientv1.SubscribeResult {
	return &clientv1.SubscribeResult{
		Expires: r.Expires, Ttl: r.TTL, Recoverable: r.Recoverable, Epoch: r.Position.Epoch, Offset: r.Position.Offset,
		Publications: generatedPublications(r.Publications), Recovered: r.Recovered, Positioned: r.Positioned, Data: r.Data,
		WasRecovering: r.WasRecovering, Delta: r.Delta, Id: int64(r.ID), Phase: int32(r.Phase), Cursor: r.Cursor,
		State: generatedPublications(r.State),
	}
}

func generatedPublications(pubs []push.Publication) []*clientv1.Publication {
	var g []*clientv1.Publication
	for i := range pubs {
		g = append(g, generatedPublication(&pubs[i]))
	}
	return g
}

func generatedPublication(p *push.Publication) *clientv1.Publication {
	g := &clientv1.Publication{
		Data: p.Data, Offset: p.Offset, Tags: p.Tags, Delta: p.Delta, Key: p.Key,
		Removed: p.Op == push.Remove, Cleared: p.Op == push.Clear,
	}
	if p.Info != nil {
		g.Info = generatedInfo(p.Info)
	}
	return g
}

func generatedInfo(c *push.ClientInfo) *clientv1.ClientInfo {
	return &clientv1.ClientInfo{User: c.User, Client: c.Client, ConnInfo: c.ConnInfo, ChanInfo: c.ChanInfo}
}

// marshal returns the bytes that generated code has for a message, with their length before them.
func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	message, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return frame(message)
}
