package main_test

import (
	"fmt"
	"strings"

	"github.com/sluice-push/sluice/push/protocol"
)

// channelAttacks are names of channels that ann may not subscribe to, with the code of the refusal. Look-alikes of the letters and of the colon must not
// lead into a namespace, and no name may lead out of the one that it begins with.
var channelAttacks = []struct {
	name string
	code uint32
}{
	{"", 107},
	{":", 107},
	{":a", 107},
	{"$", 103},
	{"$:", 107},
	{"$:a", 107},
	{"$a", 103},
	{"$$a", 103},
	{"$subscribe:a", 103},
	{"$secret:a", 103},
	{"nothing:a", 103},
	{"nothing:", 103},
	{"nothing::a", 103},
	{"nothing:subscribe:a", 103},
	{"nothing:$a", 103},
	{"nothing:#", 103},
	{"nothing:a#", 103},
	{"nothing:a#bob", 103},
	{"nothing:a#bob,", 103},
	{"nothing:a#bob#ann", 103},
	{"nothing:a#bob, ann", 103},
	{"nothing:a#Ann", 103},
	{"nothing:a#\u0430nn", 103},  // a Cyrillic letter
	{"nothing:a#ann\u200b", 103}, // a space without width
	{"nothing:a\uff03ann", 103},  // a wide number sign, so that no user is in the name
	{"secret:a", 103},
	{"secret:a#ann", 103},
	{"#", 103},
	{"#bob", 103},
	{"#bob,", 103},
	{"#ann#bob", 103},
	{"#,", 103},
	{"subscribe", 0}, // a name without a namespace, which is open
	{"SUBSCRIBE:a", 102},
	{"Subscribe:a", 102},
	{"subscribe :a", 102},
	{" subscribe:a", 102},
	{"\u0455ubscribe:a", 102},  // a Cyrillic letter
	{"subscr\u0131be:a", 102},  // an i without a dot
	{"\uff53ubscribe:a", 102},  // a wide letter
	{"subscribe\u200b:a", 102}, // a space without width
	{"\ufeffsubscribe:a", 102}, // a byte order mark
	{"\u202esubscribe:a", 102}, // text from right to left
	{"subscribe\u0301:a", 102}, // an accent of its own
	{"@auth:revoked", 102},     // the node's own table
	{"$@auth:revoked", 102},    // the same
	{"*:a", 102},               // a pattern
	{"subscribe:a\x00", 107},   // a control character
	{"subscribe:a\x7f", 107},   // another
	{"subscribe:a\r\nInjected: 1", 107},
	{"\nsubscribe:a", 107},
	{"subscribe:" + strings.Repeat("a", 250), 107},
}

// actionAttacks are commands, by what they need a permission for.
func actionAttacks(channel string) []*protocol.Command {
	only := protocol.ChannelRequest{Channel: channel}
	return []*protocol.Command{
		{Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Channel: channel}},
		{Kind: protocol.KindPublish, Publish: protocol.PublishRequest{Channel: channel, Data: []byte("1")}},
		{Kind: protocol.KindHistory, History: protocol.HistoryRequest{Channel: channel, Limit: 10}},
		{Kind: protocol.KindPresence, Presence: only},
		{Kind: protocol.KindPresenceStats, PresenceStats: only},
	}
}

// attackChannels tries what ann may not do with channels, over a connection of hers or, if that has no commands, over new ones.
func (a *attacker) attackChannels(carrier *attackCarrier, c attackClient, r *protocol.ConnectRequest, subs []tokenAttack) {
	if carrier.isOneWay {
		a.listenToForbidden(carrier, r, subs)
		return
	}
	before := a.node.scrape()
	o := &offences{attacker: a, client: c, id: 10, counted: map[string]float64{}}
	for _, attack := range channelAttacks {
		for _, cmd := range actionAttacks(attack.name) {
			o.try(cmd, attack.code)
		}
	}
	for _, allowed := range []string{"subscribe", "publish", "history", "presence"} {
		for _, cmd := range actionAttacks(allowed + ":a") {
			code := uint32(103)
			if strings.HasPrefix(cmd.Kind.String(), allowed) {
				code = 0
			}
			o.try(cmd, code)
		}
	}
	for _, attack := range subs {
		o.try(&protocol.Command{Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Channel: "secret:a", Token: attack.token}}, attack.code)
	}
	o.try(&protocol.Command{Kind: protocol.KindUnsubscribe, Unsubscribe: protocol.ChannelRequest{Channel: "secret:a"}}, 0)
	refresh := protocol.SubRefreshRequest{Channel: "secret:a", Token: r.Token}
	o.try(&protocol.Command{Kind: protocol.KindSubRefresh, SubRefresh: refresh}, 103) // ann is not subscribed
	refresh.Channel = "subscribe:a"
	o.try(&protocol.Command{Kind: protocol.KindSubRefresh, SubRefresh: refresh}, 103) // the token is one of a connection
	o.try(&protocol.Command{Kind: protocol.KindRPC, RPC: protocol.RPCRequest{Method: "sluice.pace", Data: []byte(`{"channel":"secret:a","interval":50}`)}}, 107)
	for _, channel := range []string{"secret:a", "nosuch:a", ""} { // there is nothing to leave
		o.try(&protocol.Command{Kind: protocol.KindUnsubscribe, Unsubscribe: protocol.ChannelRequest{Channel: channel}}, 0)
	}
	a.wantCounted(before, func(rise func(name string, labels ...string) float64) error {
		for name, want := range o.counted {
			if got := rise("sluice_command_errors_total", "error", name); got != want {
				return fmt.Errorf("%v commands are counted as refused with %s, want %v", got, name, want)
			}
		}
		return nil
	})
}

// offences are commands of one client, and how many of them are refused, by the label of the metric.
type offences struct {
	*attacker
	client  attackClient
	id      uint32
	counted map[string]float64
}

// try sends a command, which has to be answered with a code.
func (o *offences) try(cmd *protocol.Command, code uint32) {
	o.id++
	cmd.ID = o.id
	want := accepted
	if code != 0 {
		want = inCodes(code)
		o.counted[map[uint32]string{102: "unknown_channel", 103: "permission_denied", 107: "bad_request", 109: "token_expired"}[code]]++
	}
	if v := o.client.ask(cmd); v != want {
		o.t.Errorf("%s of %+q: %s, want %s", cmd.Kind, channelOf(cmd), v, want)
	}
}

// channelOf returns the channel that a command is about.
func channelOf(cmd *protocol.Command) string {
	return cmd.Subscribe.Channel + cmd.Publish.Channel + cmd.History.Channel + cmd.Presence.Channel + cmd.PresenceStats.Channel +
		cmd.SubRefresh.Channel + cmd.Unsubscribe.Channel
}

// listenToForbidden connects one-way clients that subscribe to what they may not.
func (a *attacker) listenToForbidden(carrier *attackCarrier, r *protocol.ConnectRequest, subs []tokenAttack) {
	before, refused := a.node.scrape(), 0.0
	listen := func(name, channel, token string, code uint32) {
		c, v := carrier.connect(a, &protocol.ConnectRequest{Token: r.Token, Subs: map[string]protocol.SubscribeRequest{channel: {Token: token}}})
		want := accepted
		if code != 0 {
			want = carrier.says(code)
			refused++
		}
		if v != want {
			a.t.Errorf("subscribe to %+q with the token %q: %s, want %s", channel, name, v, want)
		}
		if c != nil {
			c.close()
		}
	}
	for _, attack := range channelAttacks {
		listen("", attack.name, "", attack.code)
	}
	if carrier.noTokens {
		subs = nil
	}
	for _, attack := range subs {
		listen(attack.name, "secret:a", attack.token, attack.code)
	}
	a.wantCounted(before, func(rise func(name string, labels ...string) float64) error {
		if got := rise("sluice_connections_refused_total", "reason", "client"); got != refused {
			return fmt.Errorf("%v clients are counted as refused, want %v", got, refused)
		}
		return nil
	})
}
